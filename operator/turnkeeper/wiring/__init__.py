"""Puts the parts together, and runs them: the one room that knows all of them.

parts     a runner's parts, as its settings name them
serving   a runner with its API in one process, until a signal
pod       the same in a pod: claims are Leases, and probes are answered from a thread of their own
control   the controller
"""

from __future__ import annotations

from turnkeeper.wiring.parts import open_runner, verify
from turnkeeper.wiring.serving import serve

__all__ = ["open_runner", "serve", "verify"]
