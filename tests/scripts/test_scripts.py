"""Schedules that once showed a fault, or show what a guard is for, never show one again."""

from pathlib import Path

import pytest

from tests.sim.scripts import FOLDER, read

SCRIPTS = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_schedule_that_was_found_once_comes_to_rest(path: Path) -> None:
    """Each file is replayed exactly: its setting, its faults, its seed."""
    script = read(path)
    assert script.shows
    assert script.replay().breaches == ()


def test_there_are_schedules() -> None:
    """An empty folder would pass unseen."""
    assert SCRIPTS
