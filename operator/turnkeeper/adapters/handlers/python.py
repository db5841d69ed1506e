"""Runs a coroutine function of the user's own, in the runner's process and on its event loop."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import cast

from turnkeeper.adapters.handlers.verdicts import checked
from turnkeeper.core.values import Json
from turnkeeper.errors import HandlerError, InvalidInputError, SettingsError
from turnkeeper.ports import Pause, Turn

WANTED = "an `async def` function that takes the turn, or a class or a function without arguments that makes a Handler"


class PythonHandler:
    """Runs `entry_point`, written "package.module:name": `async def name(turn)`, or what makes an object with `turn`.

    search_path: the folder or folders to look for the module in first; where there is none, the current one.
    Raises SettingsError, with what to do, if it can't be loaded. A plain function is refused: it would hold up every
    other turn and the sign of life of their runner, and in a thread of its own it could not be cancelled.
    """

    def __init__(self, entry_point: str, search_path: str | Sequence[str] | None = None) -> None:
        folders = [search_path] if isinstance(search_path, str) else list(search_path or (str(Path.cwd()),))
        loaded = _load(entry_point, folders)
        self._made: object = None
        self._call = self._prepare(entry_point, loaded)

    async def turn(self, turn: Turn) -> Json | Pause:
        """Run the function on a turn; raises what it raises, and HandlerError for a result that can't be kept."""
        try:
            result = await self._call(turn)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not this run was cancelled but something that the function waited for: its own affair, told apart.
            raise HandlerError("it raised CancelledError although nobody cancelled its run") from error
        except InvalidInputError as error:
            # It gave the turn something that can't be kept, and did not mind the refusal.
            raise HandlerError(str(error)) from error
        return checked(result)

    async def aclose(self) -> None:
        """Close the handler object, if there is one that can be closed."""
        close = getattr(self._made, "aclose", None)
        if close is not None:
            await close()

    def _prepare(self, entry_point: str, loaded: object) -> Callable[[Turn], Awaitable[object]]:
        if _is_async(loaded):
            return _taking_one(entry_point, loaded)
        if inspect.isasyncgenfunction(loaded):
            raise SettingsError(
                f"python: {entry_point} yields; emit events with `await turn.emit(...)`, return the answer"
            )
        if inspect.isclass(loaded):
            loaded = _make(entry_point, loaded)
        elif inspect.isfunction(loaded):
            if _parameters(loaded):
                raise SettingsError(
                    f"python: {entry_point} is a plain function, which would block every other turn: write it as "
                    "`async def`, and call what blocks with `await asyncio.to_thread(...)`"
                )
            loaded = _make(entry_point, loaded)
        self._made = loaded
        method = getattr(loaded, "turn", None)
        if not _is_async(method):
            raise SettingsError(
                f"python: {entry_point} gives {type(loaded).__name__}, which has no `async def turn`; {_wanted()}"
            )
        return _taking_one(entry_point, method)


def _load(entry_point: str, folders: list[str]) -> object:
    module_name, colon, name = entry_point.partition(":")
    if not (colon and module_name and name):
        raise SettingsError(f'python: the entry point {entry_point!a} is not of the form "package.module:name"')
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            where = " or ".join([*folders, "where Python looks"])
            raise SettingsError(f"python: there is no module {error.name!a} in {where}; {_wanted()}") from error
        raise SettingsError(f"python: {module_name} imports {error.name!a}, which is not installed here") from error
    except (Exception, SystemExit) as error:
        raise SettingsError(f"python: importing {module_name} raised {type(error).__name__}: {error}") from error
    try:
        return reduce(getattr, name.split("."), cast("object", module))
    except AttributeError as error:
        raise SettingsError(f"python: the module {module_name} ({module.__file__}) has no {name!a}") from error


def _make(entry_point: str, maker: Callable[[], object]) -> object:
    if wanted := _parameters(maker):
        raise SettingsError(f"python: {entry_point} can't be made without arguments: it wants {', '.join(wanted)}")
    try:
        return maker()
    except Exception as error:
        raise SettingsError(f"python: {entry_point}() raised {type(error).__name__}: {error}") from error


def _taking_one(entry_point: str, function: object) -> Callable[[Turn], Awaitable[object]]:
    call = cast("Callable[[Turn], Awaitable[object]]", function)
    try:
        inspect.signature(call).bind(None)
    except TypeError as error:
        raise SettingsError(f"python: {entry_point} must take one argument, the turn: {error}") from error
    return call


def _parameters(function: Callable[..., object]) -> list[str]:
    """Return the names of the parameters that a call must give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    kinds = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [each.name for each in parameters if each.default is each.empty and each.kind not in kinds]


def _is_async(function: object) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - not whether, but how it is called
    is_object = not inspect.isclass(function) and not inspect.isroutine(function)
    return inspect.iscoroutinefunction(function) or (is_object and inspect.iscoroutinefunction(called))


def _wanted() -> str:
    return f"wanted: {WANTED}"
