"""What the controller counts, for Prometheus. Per Workspace there are gauges alone, gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from turnkeeper.controller.runner_calls import ThreadStats
from turnkeeper.controller.view import Key

STATES: Final = ("owed", "running", "paused", "parked")

SWEEP_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 45.0)
"""From a call to one runner to a sweep's deadline."""


class ControllerMetrics:
    """Counts what is written and swept, and shows the threads of each Workspace as they were last counted."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._applies = self._counter("applies", "Objects of Workspaces that were written, by kind.", "resource")
        self._statuses = self._counter("status_writes", "Statuses of Workspaces that were written.")
        self._looks = self._counter("reconciles", "Times that a Workspace was looked at, by what came of it.", "result")
        self._sweeps = self._counter("sweeps", "Sweeps of Workspaces, by what came of them.", "result")
        self._notices = self._counter("death_notices", "Sessions ended because their container had stopped.")
        self._collected = self._counter("claims_collected", "Claims removed whose session was gone.")
        self._sweep_seconds = Histogram(
            "turnkeeper_controller_sweep_seconds",
            "How long sweeps took.",
            registry=self._registry,
            buckets=SWEEP_BUCKETS,
        )
        place = ("namespace", "workspace")
        self._threads = Gauge("turnkeeper_threads", "Threads, by state.", (*place, "state"), registry=self._registry)
        self._oldest = Gauge(
            "turnkeeper_oldest_owed_seconds",
            "How long the thread that waits longest has waited.",
            place,
            registry=self._registry,
        )
        self._ready = Gauge("turnkeeper_workspace_ready", "Whether it is Ready.", place, registry=self._registry)
        self._recovered = Gauge(
            "turnkeeper_workspace_recovered", "Whether the last sweep left nothing.", place, registry=self._registry
        )

    def watch(self, name: str, told: str, read: Callable[[], float]) -> None:
        """Show a number that somebody else keeps."""
        Gauge(f"turnkeeper_controller_{name}", told, registry=self._registry).set_function(read)

    def applied(self, resource: str) -> None:
        """Count an object that was written."""
        self._applies.labels(resource).inc()

    def wrote_status(self) -> None:
        """Count a status that was written."""
        self._statuses.inc()

    def looked(self, result: str) -> None:
        """Count a Workspace that was looked at."""
        self._looks.labels(result).inc()

    def swept(self, result: str, seconds: float) -> None:
        """Count a sweep."""
        self._sweeps.labels(result).inc()
        self._sweep_seconds.observe(seconds)

    def noticed(self) -> None:
        """Count a session whose end was told."""
        self._notices.inc()

    def collected(self) -> None:
        """Count a claim that was removed."""
        self._collected.inc()

    def show(self, key: Key, stats: ThreadStats) -> None:
        """Show a Workspace's threads."""
        for state in STATES:
            self._threads.labels(*key, state).set(getattr(stats, state))
        self._oldest.labels(*key).set(stats.oldest_owed_seconds)

    def show_conditions(self, key: Key, *, is_ready: bool, is_recovered: bool) -> None:
        """Show how a Workspace is."""
        self._ready.labels(*key).set(is_ready)
        self._recovered.labels(*key).set(is_recovered)

    def forget(self, key: Key) -> None:
        """Show a Workspace no more."""
        labels = dict(zip(("namespace", "workspace"), key, strict=True))
        for gauge in (self._threads, self._oldest, self._ready, self._recovered):
            gauge.remove_by_labels(labels)

    def render(self) -> tuple[int, str, bytes]:
        """Answer Prometheus."""
        return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"turnkeeper_controller_{name}", told, labels, registry=self._registry)
