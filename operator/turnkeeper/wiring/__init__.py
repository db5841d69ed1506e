"""Puts the parts together, and runs them: the one room that knows all of them.

    parts     a runner's parts, as its settings name them
    serving   a runner with its API in one process, until a signal
    pod       the same in a pod: claims are Leases, and probes are answered from a thread of their own
    control   the controller
    process   log lines and signals of them all

What each loads is loaded when it is first asked for: the controller's memory holds no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnkeeper.wiring.parts import open_runner, verify
    from turnkeeper.wiring.serving import serve

__all__ = ["open_runner", "serve", "verify"]

_HOMES = {"open_runner": "parts", "serve": "serving", "verify": "parts"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of three functions, each typed above
    """Load what is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
