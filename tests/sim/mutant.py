"""How a line of the code under test is made to read differently, and what a mutant is."""

from __future__ import annotations
import __future__

import inspect
import random
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from tests.sim.faults import Fault, Harm
from tests.sim.process import Setting

Place = ModuleType | type[Any]


@dataclass(frozen=True)
class Line:
    """A line of a function that reads differently in a mutant."""

    place: Place
    function: str
    old: str
    new: str

    def source(self) -> tuple[FunctionType, str]:
        """Return the function, and its source as it would be. Raises AssertionError where the line is not there."""
        found = inspect.getattr_static(self.place, self.function)
        plain = found.fget if isinstance(found, property) else found
        assert isinstance(plain, FunctionType)
        source = textwrap.dedent(inspect.getsource(plain))
        assert self.old in source, f"{self.function} has no {self.old!r} any more"
        return plain, source.replace(self.old, self.new)

    def rewrite(self) -> None:
        """Compile the function anew, with the line changed, and put it where it was."""
        plain, source = self.source()
        names: dict[str, Any] = {}
        code = compile(source, f"<mutant {self.function}>", "exec", __future__.annotations.compiler_flag, True)  # noqa: FBT003 - positional in the language
        exec(code, plain.__globals__, names)  # noqa: S102 - the project's own source, one line changed
        changed = names[self.function]  # with its decorators
        setattr(self.place, self.function, changed)
        for module in list(sys.modules.values()):  # where it was imported by name
            if getattr(module, self.function, None) is plain:
                setattr(module, self.function, changed)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A guard taken away. alone: the setting in which it matters, None for each seed's own.

    harms: of a seed's own faults, all or these. plan: draws the faults instead.
    """

    name: str
    lines: tuple[Line, ...]
    without: tuple[Line, ...] = ()
    alone: Setting | None = None
    harms: frozenset[Harm] | None = None
    plan: Callable[[random.Random, Setting], list[Fault]] | None = None
