"""Commands to run as handlers, and the watch that none of them is left behind."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from turnkeeper.adapters.handlers import ExecHandler

PRELUDE = """
import json, os, signal, sys, time

def say(kind, **line):
    print(json.dumps({"type": kind, **line}), flush=True)

def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None

turn = hear()
"""

MakeExec = Callable[..., ExecHandler]


@pytest.fixture
async def run_program(tmp_path: Path) -> AsyncIterator[MakeExec]:
    """Make an exec handler of a Python text, which begins with PRELUDE."""
    handlers: list[ExecHandler] = []
    before = children()

    def make(program: str, **options: Any) -> ExecHandler:  # noqa: ANN401 - the handler's own options
        path = tmp_path / f"program_{len(handlers)}.py"
        path.write_text(PRELUDE + program)
        handlers.append(ExecHandler([sys.executable, "-I", "-S", str(path)], **options))
        return handlers[-1]

    yield make
    for handler in handlers:
        await handler.aclose()
    # Every command and every guard has been reaped.
    assert children() == before


def children() -> set[int]:
    """The processes that this one has started and not reaped, threads' ones too."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def open_files() -> int:
    """How many files this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))
