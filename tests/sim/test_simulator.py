"""The simulator itself: a seed replays exactly, and the first seeds show no breach."""

import random
import threading
import uuid

import pytest

from tests.sim.faults import OF_HINTS, OF_NOTICES
from tests.sim.mutations import HINTING
from tests.sim.network import Bus, NetworkHints
from tests.sim.simulation import faults_of, setting_of, simulate


@pytest.mark.parametrize("seed", [3, 8])
def test_a_seed_replays_byte_for_byte(seed: int) -> None:
    """Chance, ids, time and the order of tasks all come from the seed."""
    first, second = simulate(seed), simulate(seed)
    assert first.log == second.log
    assert len(first.log) > 50


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_seed_comes_to_rest_without_a_breach(seed: int) -> None:
    """A few seeds run with the other tests; `make sim` runs many."""
    result = simulate(seed)
    assert result.breaches == (), result.faults


def test_faults_left_out_change_nothing_else() -> None:
    """A failing seed is reduced by leaving faults out: setting and the rest of them stay."""
    faults = faults_of(5)
    assert simulate(5, faults[:1]).setting == setting_of(5)
    assert simulate(5, faults[:1]).faults == tuple(faults[:1])


def test_seeds_draw_every_fault_of_notices_and_hints() -> None:
    """What is never drawn is never tried; and where processes notice each other, some act upon it."""
    drawn = {fault.harm for seed in range(1, 41) for fault in faults_of(seed)}
    assert {*OF_NOTICES, *OF_HINTS} <= drawn
    assert any(line.endswith("noticed: declared") for line in simulate(2).log)


@pytest.mark.parametrize("carries", [True, False])
def test_hints_arrive_by_themselves(monkeypatch: pytest.MonkeyPatch, carries: bool) -> None:  # noqa: FBT001 - a case of the test
    """Where nothing is polled, readers see all there is by hints, at once; and by their heartbeat where none arrive."""
    monkeypatch.setattr(NetworkHints, "poll_seconds", 1_000.0)
    if not carries:
        monkeypatch.setattr(Bus, "carry", lambda *_: None)
    waited_seconds = sum(simulate(seed, (), HINTING).rest_seconds for seed in range(1, 9))
    assert waited_seconds < 10.0 if carries else waited_seconds > 20.0


def test_what_other_threads_draw_changes_nothing() -> None:
    """A thread that an earlier test left to end by itself draws jitter and ids of its own while a seed is replayed."""
    quiet, is_over = simulate(3), threading.Event()

    def draw() -> None:
        while not is_over.wait(0.001):
            random.random()
            random.uniform(0.0, 1.0)
            uuid.uuid4()

    other = threading.Thread(target=draw)
    other.start()
    try:
        assert simulate(3).log == quiet.log
    finally:
        is_over.set()
        other.join()
