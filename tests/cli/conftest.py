"""The command line in this process, against a real server."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.api.served import Served, serving
from turnkeeper.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """A server without tokens."""
    with serving() as server:
        yield server


@pytest.fixture
def thread() -> str:
    """A thread that nobody else uses; its id would break if it were escaped wrongly."""
    return f"a/b %é {uuid.uuid4().hex}"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine's own."""
    for name in [name for name in os.environ if name.startswith("TURNKEEPER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; `on_terminal` makes it believe that its output is one."""

    def run(*arguments: str, on_terminal: bool = False) -> Ended:
        monkeypatch.setattr(sys, "argv", ["turnkeeper", *arguments])
        monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return run


@pytest.fixture
def at(served: Served, cli: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same, speaking to the server."""
    monkeypatch.setenv("TURNKEEPER_URL", served.url)
    return cli
