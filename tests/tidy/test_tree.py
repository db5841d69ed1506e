"""The whole working tree keeps the rules."""

import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.rules import PYTHON_RULES, TEXT_RULES, Source

ROOT = Path(__file__).parents[2]

EXCEPTIONS: dict[str, dict[str, str]] = {}
"""By rule's name, then by path: why this file may break it. It only shrinks: one that is not needed fails."""

WRITTEN_BY_TOOLS = (".svg", ".png")
"""Not read: no text of ours."""

Rule = Callable[[Source], Iterator[str]]


@cache
def sources() -> tuple[Source, ...]:
    """Every file that is committed or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = sorted({path for path in listed.split("\0") if path and not path.endswith(WRITTEN_BY_TOOLS)})
    return tuple(Source(path, (ROOT / path).read_text("utf-8")) for path in paths if (ROOT / path).is_file())


def breaches(rule: Rule, files: tuple[Source, ...]) -> list[str]:
    """What breaks the rule in files that have no leave to."""
    allowed = EXCEPTIONS.get(rule.__name__, {})
    return [breach for source in files if source.path not in allowed for breach in rule(source)]


@pytest.mark.parametrize("rule", PYTHON_RULES)
def test_python_keeps_the_rule(rule: Rule) -> None:
    """Every Python file of the tree keeps each rule, or has leave with a reason."""
    python = tuple(source for source in sources() if source.path.endswith(".py"))
    assert len(python) > 1
    assert breaches(rule, python) == []


@pytest.mark.parametrize("rule", TEXT_RULES)
def test_text_keeps_the_rule(rule: Rule) -> None:
    """Every file of the tree keeps each rule, or has leave with a reason."""
    assert breaches(rule, sources()) == []


def test_no_exception_outlives_its_need() -> None:
    """A file that has leave to break a rule does break it; one that no longer does loses its leave."""
    by_path = {source.path: source for source in sources()}
    rules = {rule.__name__: rule for rule in (*PYTHON_RULES, *TEXT_RULES)}
    idle = [
        f"{name}: {path}"
        for name, allowed in EXCEPTIONS.items()
        for path in allowed
        if path not in by_path or not list(rules[name](by_path[path]))
    ]
    assert idle == []
