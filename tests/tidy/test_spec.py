"""The specification's table of actions is one with the specification, the code and the tests."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES_DEEP = 3
"""No name in the table leads deeper than `room.module.Class.function`."""


def rows() -> list[tuple[list[str], list[str], list[str]]]:
    """Return the actions, functions and tests of each row of the table of actions."""
    text = (ROOT / "spec" / "README.md").read_text()
    table = text.partition("| action | function | test |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [(row[0].split(", "), re.findall(r"`([^`]+)`", row[1]), re.findall(r"`([^`]+)`", row[2])) for row in cells]


def actions_of_the_specification() -> set[str]:
    """Return the names of the actions that make up Next."""
    text = (ROOT / "spec" / "ThreadClaim.tla").read_text()
    definitions = re.findall(r"^(Step\(p\)|System|Environment) ==\n((?:    .*\n)+)", text, re.MULTILINE)
    bodies = "".join(body for _, body in definitions)
    named = set(re.findall(r"\b([A-Z][A-Za-z]+)\(p\)", bodies)) | set(
        re.findall(r"\\/ ([A-Z][A-Za-z]+)$", bodies, re.MULTILINE)
    )
    return (named - {"Step", "Look"}) | {"LookAgain"}  # Look is LookAgain that finds something


def leads_somewhere(name: str) -> bool:
    """Whether a dotted name below the package is there."""
    parts = name.split(".")
    for depth in range(min(len(parts), MODULES_DEEP), 0, -1):
        try:
            found: object = importlib.import_module(".".join(["turnkeeper", *parts[:depth]]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_each_action_has_its_row_and_no_row_is_about_another() -> None:
    """An action that is added, renamed or dropped in the specification is so in the table too."""
    named = [action for actions, _, _ in rows() for action in actions]
    assert sorted(named) == sorted(actions_of_the_specification())


@pytest.mark.parametrize("name", sorted({name for _, functions, _ in rows() for name in functions}))
def test_each_function_is_there(name: str) -> None:
    """What the table names can be imported."""
    assert leads_somewhere(name), f"spec/README.md names {name}, and the package has no such thing"


@pytest.mark.parametrize("name", sorted({name for _, _, tests in rows() for name in tests}))
def test_each_test_is_there(name: str) -> None:
    """What the table names is a test of the suite."""
    path, _, function = name.partition("::")
    source = (ROOT / "tests" / path).read_text()
    assert not function or re.search(rf"^(async )?def {function}\(", source, re.MULTILINE)


def test_every_action_but_the_environments_has_both() -> None:
    """A row without a function or a test would be a promise of nobody's."""
    assert all(tests and (functions or "Crash" in actions) for actions, functions, tests in rows())
