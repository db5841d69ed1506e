"""Counts what a runner does, for Prometheus: the `Observer` of a deployed runner.

One registry of its own for each observer, so that two runners in one process don't add up and a test starts at zero.
No label holds anything that a user names: the number of series is fixed by the protocol's words. The gauges come from
the journal and are handed in by whoever serves the metrics; where they can't be had they are absent, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from turnkeeper.core.trace import TAKEN_OVER, Decision
from turnkeeper.core.values import Stats

CONTENT_TYPE = CONTENT_TYPE_LATEST

ACTION_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""From well under a commit on a local disk to the journal's own deadline."""

TURN_BUCKETS = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""From an echo to the default deadline of a run."""

SUPERSEDED = "Superseded"
"""The verdict of a write that the journal's fence refused."""


class PrometheusObserver:
    """Counts turns, looks, takeovers and refusals, and times the protocol's actions and renewals."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._turns = self._counter("turns", "Runs that ended, by outcome.", "outcome")
        self._looks = self._counter("looks", "Looks that were taken, by what they found.", "result")
        self._takeovers = self._counter("takeovers", "Runs of sessions that are gone, ended to run the turn again.")
        self._refusals = self._counter("fence_refusals", "Writes that the journal refused: the claim was another's.")
        self._noticed = self._counter("death_notices", "Other runners that were noticed to be gone.", "result")
        self._stats_failures = self._counter("stats_failures", "Times that the journal's counts could not be read.")
        self._turn_seconds = self._histogram("turn", "How long runs took.", ("outcome",), TURN_BUCKETS)
        self._renew_seconds = self._histogram("renew", "How long renewals took.", ("result",), ACTION_BUCKETS)
        self._action_seconds = self._histogram(
            "action", "How long the journal took for an action of the protocol.", ("action", "verdict"), ACTION_BUCKETS
        )
        self._kube_seconds = self._histogram(
            "kube_call", "How long calls of the Kubernetes API took.", ("verb", "verdict"), ACTION_BUCKETS
        )
        self._stats = _StatsCollector()
        self.registry.register(self._stats)

    def acted(self, action: str, thread_id: str, verdict: str, seconds: float) -> None:
        """See `ports.Observer`."""
        del thread_id  # a label for each thread would be a series for each
        self._action_seconds.labels(action, verdict).observe(seconds)
        if verdict == SUPERSEDED:
            self._refusals.inc()
        elif verdict == TAKEN_OVER:
            self._takeovers.inc()

    def decided(self, decision: Decision, thread_id: str, seq: int = 0) -> None:
        """See `ports.Observer`. Not counted: each leads to an action or a look, which are."""

    def turn_ended(self, outcome: str, seconds: float) -> None:
        """See `ports.Observer`."""
        self._turns.labels(outcome).inc()
        self._turn_seconds.labels(outcome).observe(seconds)

    def looked(self, result: str) -> None:
        """See `ports.Observer`."""
        self._looks.labels(result).inc()

    def noticed(self, result: str) -> None:
        """See `ports.Observer`."""
        self._noticed.labels(result).inc()

    def renewed(self, result: str, seconds: float) -> None:
        """See `ports.Observer`."""
        self._renew_seconds.labels(result).observe(seconds)

    def kube_called(self, verb: str, resource: str, verdict: str, seconds: float) -> None:
        """Count a call of the Kubernetes API: its verdict is `Done` or the name of an error in `turnkeeper.errors`."""
        del resource  # a runner asks for Leases alone
        self._kube_seconds.labels(verb, verdict).observe(seconds)

    def show_stats(self, stats: Stats, now_ms: int) -> None:
        """Set what the gauges say."""
        self._stats.stats, self._stats.now_ms = stats, now_ms

    def lose_stats(self) -> None:
        """Leave the gauges out until they are known again: an old number would be believed."""
        self._stats.stats = None
        self._stats_failures.inc()

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"turnkeeper_{name}", told, labels, registry=self.registry)

    def _histogram(self, name: str, told: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"turnkeeper_{name}_seconds", told, labels, buckets=buckets, registry=self.registry)


class _StatsCollector(Collector):
    """The workspace's counts as gauges; nothing where they are not known."""

    def __init__(self) -> None:
        self.stats: Stats | None = None
        self.now_ms = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        if self.stats is None:
            return
        threads = GaugeMetricFamily("turnkeeper_threads", "Threads of the workspace, by state.", labels=["state"])
        for state in ("owed", "running", "paused", "parked"):
            threads.add_metric([state], getattr(self.stats, state))
        yield threads
        since = self.stats.oldest_owed_ms
        age = 0.0 if since is None else max(0.0, (self.now_ms - since) / 1000)
        told = "How long the thread that waits longest for a turn has waited; 0 if none does."
        yield GaugeMetricFamily("turnkeeper_oldest_owed_seconds", told, value=age)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from ()
