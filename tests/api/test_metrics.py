"""The metrics and the health calls."""

import httpx
import pytest

from tests.api.served import Served, eventually, path_of, raw_call, sent_and_done, serving
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.core.values import Stats
from turnkeeper.errors import UnavailableError


def samples(text: str) -> dict[str, float]:
    """Each sample by its name and labels."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_turns_are_counted_by_outcome_and_threads_by_state() -> None:
    """A server of its own, so that the numbers are exact."""
    with serving() as served, httpx.Client(base_url=served.url, trust_env=False) as client:
        sent_and_done(client, "a", "x")
        sent_and_done(client, "b", {"do": "fail"})
        client.post(path_of("c", "/messages"), json={"content": {"do": "ask", "asks": ["free"]}})
        assert eventually(lambda: client.get(path_of("c")).json()["state"] == "paused")
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    found = samples(response.text)
    assert found['turnkeeper_turns_total{outcome="completed"}'] == 1
    assert found['turnkeeper_turns_total{outcome="failed"}'] == 1
    assert found['turnkeeper_turns_total{outcome="paused"}'] == 1
    assert found['turnkeeper_threads{state="paused"}'] == 1
    assert found['turnkeeper_threads{state="owed"}'] == 0
    assert found["turnkeeper_oldest_owed_seconds"] == 0
    assert found["turnkeeper_takeovers_total"] == 0


@pytest.mark.parametrize("fault", [UnavailableError("away"), TimeoutError()])
def test_where_the_journal_is_away_its_gauges_are_too_and_a_counter_rises(fault: Exception) -> None:
    """No error page: the other numbers are wanted then most; no old number: it would be believed."""
    with serving() as served, httpx.Client(base_url=served.url, trust_env=False) as client:
        served.journal.stats_fault = fault
        response = client.get("/metrics")
    assert response.status_code == 200
    found = samples(response.text)
    assert found["turnkeeper_stats_failures_total"] == 1
    assert not [name for name in found if name.startswith(("turnkeeper_threads", "turnkeeper_oldest"))]


def test_the_journal_is_not_asked_for_each_scrape(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts are kept for a second, however often somebody asks."""
    asked: list[int] = []

    async def counted() -> Stats:
        asked.append(1)
        return Stats(owed=1, running=2, paused=3, parked=4, oldest_owed_ms=None)

    monkeypatch.setattr(served.journal, "stats", counted)
    served.doors._stats_due = 0.0
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    bodies = [raw_call(served, request)[2] for _ in range(5)]
    served.doors._stats_due = 0.0
    assert len(asked) == 1
    assert all(b'turnkeeper_threads{state="parked"} 4.0' in body for body in bodies)


def test_an_observer_counts_what_it_is_told() -> None:
    """Each under the name that the documentation gives."""
    observer = PrometheusObserver()
    observer.acted("Append", "t", "Superseded", 0.01)
    observer.acted("Start", "t", "TakenOver", 0.01)
    observer.acted("Start", "t", "Started", 0.01)
    observer.looked("refused")
    observer.renewed("failed", 0.2)
    observer.show_stats(Stats(owed=1, running=0, paused=0, parked=0, oldest_owed_ms=1_000), now_ms=3_500)
    found = samples(observer.render().decode())
    assert found["turnkeeper_fence_refusals_total"] == 1
    assert found["turnkeeper_takeovers_total"] == 1
    assert found['turnkeeper_looks_total{result="refused"}'] == 1
    assert found['turnkeeper_renew_seconds_count{result="failed"}'] == 1
    assert found['turnkeeper_action_seconds_count{action="Start",verdict="Started"}'] == 1
    assert found["turnkeeper_oldest_owed_seconds"] == 2.5


def test_two_observers_in_one_process_do_not_add_up() -> None:
    """Each has a registry of its own; and no thread's id is ever a label."""
    first, second = PrometheusObserver(), PrometheusObserver()
    first.turn_ended("completed", 1.0)
    first.acted("Start", "somebody's thread", "Started", 0.1)
    assert "completed" not in second.render().decode()
    assert "somebody" not in first.render().decode()


def test_a_runner_that_stops_is_not_ready_but_alive() -> None:
    """And says why; its API takes nothing more, with a 503 that says to ask again."""
    with serving() as served, httpx.Client(base_url=served.url, trust_env=False) as client:
        assert client.get("/readyz").json() == {"ok": True, "reasons": []}
        served.call(lambda: setattr(served.runner._taker, "is_taking", False))
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == ["the runner is stopping"]
        assert client.get("/livez").status_code == 200
        refused = client.post(path_of("t", "/messages"), json={"content": 1})
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:turnkeeper:problem:closed"
        assert "retry-after" in refused.headers
