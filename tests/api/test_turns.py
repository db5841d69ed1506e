"""Questions, stops, parked turns, the sweep and the counts, as the API tells them (S20, S21)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.api.served import Served, eventually, path_of, sent_and_done
from turnkeeper.core.values import Parked


def paused_on(client: httpx.Client, thread: str, *asks: str) -> list[str]:
    """Pause a thread on questions, and return their ids."""
    client.post(path_of(thread, "/messages"), json={"content": {"do": "ask", "asks": list(asks)}})
    assert eventually(lambda: client.get(path_of(thread)).json()["state"] == "paused")
    return [question["question_id"] for question in client.get(path_of(thread)).json()["questions"]]


def answer(client: httpx.Client, thread: str, question: str, **body: object) -> httpx.Response:
    """Answer a question."""
    return client.post(path_of(thread, "/answers"), json={"question_id": question, **body})


def last_answer(log: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - it may be any JSON
    """The answer of the first turn that completed."""
    ended = [entry["body"] for entry in log if entry["kind"] == "run_ended"]
    return next(body["answer"] for body in ended if body["outcome"] == "completed")


@pytest.mark.parametrize(("approved", "resolution"), [(True, "approved"), (False, "denied")])
def test_an_approval_is_given_or_denied(client: httpx.Client, thread: str, *, approved: bool, resolution: str) -> None:
    """And the turn goes on with it."""
    (question,) = paused_on(client, thread, "approval")
    response = answer(client, thread, question, approved=approved)
    assert (response.status_code, response.json()["resolution"]) == (202, resolution)
    assert last_answer(sent_and_done(client, thread, "after it")) == [[resolution, None]]


def test_a_question_is_resolved_once_and_who_comes_later_is_told_what_stands(client: httpx.Client, thread: str) -> None:
    """Of many at once, one wins; a second question keeps the turn where it is."""
    first, _ = paused_on(client, thread, "approval", "free")
    with ThreadPoolExecutor(8) as pool:
        verdicts = [bool(number % 2) for number in range(16)]
        responses = list(pool.map(lambda verdict: answer(client, thread, first, approved=verdict), verdicts))
    won = [response for response in responses if response.status_code == 202]
    lost = [response for response in responses if response.status_code == 409]
    assert (len(won), len(lost)) == (1, 15)
    assert {response.json()["stands"] for response in lost} == {won[0].json()["resolution"]}
    assert {response.json()["question_id"] for response in lost} == {first}


def test_a_plain_message_declines_an_approval_and_answers_a_question(client: httpx.Client, thread: str) -> None:
    """Chat never approves, whatever it says."""
    paused_on(client, thread, "approval", "free")
    sent = client.post(path_of(thread, "/messages"), json={"content": "yes"}).json()
    assert sent["outcome"] == "reply"
    assert last_answer(sent_and_done(client, thread, "after it")) == [["declined", None], ["answered", "yes"]]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({}, "exactly one"),
        ({"answer": 1, "approved": True}, "exactly one"),
        ({"approved": "yes"}, "approved"),
        ({"approved": 1}, "approved"),
        ({"approved": None}, "approved"),
        ({"approve": True}, "approve"),
        ({"approved": True, "detail": {"amount": 1}}, "detail"),
    ],
)
def test_an_answer_in_no_form_is_refused_and_resolves_nothing(
    client: httpx.Client, thread: str, body: dict[str, object], hint: str
) -> None:
    """Nothing is taken for a yes; what was proposed can't be altered."""
    (question,) = paused_on(client, thread, "approval")
    response = answer(client, thread, question, **body)
    assert response.status_code == 422
    assert hint in response.json()["detail"]
    assert client.get(path_of(thread)).json()["questions"][0]["resolution"] == "open"


@pytest.mark.parametrize(("form", "body"), [("approval", {"answer": True}), ("free", {"approved": True})])
def test_an_answer_in_the_other_form_is_refused(
    client: httpx.Client, thread: str, form: str, body: dict[str, object]
) -> None:
    """An approval wants yes or no, a free question a value."""
    (question,) = paused_on(client, thread, form)
    assert answer(client, thread, question, **body).status_code == 422
    assert client.get(path_of(thread)).json()["open_questions"] == 1


def test_an_answer_to_no_question_is_not_found(client: httpx.Client, thread: str) -> None:
    """Nor in a thread that does not exist."""
    paused_on(client, thread, "free")
    assert answer(client, thread, "q-none", answer=1).status_code == 404
    assert answer(client, f"{thread}-none", "q", answer=1).status_code == 404
    assert answer(client, thread, "a\nb", answer=1).status_code == 422


def test_a_stopped_run_ends_stopped_and_what_is_behind_it_runs(client: httpx.Client, thread: str) -> None:
    """202 at the first; 409 with the outcome once it has ended."""
    run = client.post(path_of(thread, "/messages"), json={"content": {"do": "hold"}}).json()["run_id"]
    stopped = client.post(f"/v1/runs/{run}/stop")
    assert (stopped.status_code, stopped.json()) == (202, {"thread": thread, "run_id": run, "is_running": True})
    log = sent_and_done(client, thread, "next")
    assert [entry["body"]["outcome"] for entry in log if entry["kind"] == "run_ended"] == ["stopped", "completed"]
    late = client.post(f"/v1/runs/{run}/stop")
    assert (late.status_code, late.json()["stands"], late.json()["run_id"]) == (409, "stopped", run)
    assert client.get(f"/v1/runs/{run}").json()["outcome"] == "stopped"


def test_a_run_that_is_none_is_not_found(client: httpx.Client) -> None:
    """To read and to stop."""
    assert client.get("/v1/runs/none").status_code == 404
    assert client.post("/v1/runs/none/stop").status_code == 404


@pytest.mark.parametrize("body", [b"[]", b'{"force": true}', b"null"])
def test_a_stop_takes_no_options(client: httpx.Client, body: bytes) -> None:
    """One that is not known must not be believed to work."""
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/runs/none/stop", content=body, headers=headers).status_code == 422
    assert client.post("/v1/runs/none/stop", content=body).status_code == 415


def test_a_failed_turn_says_why(client: httpx.Client, thread: str) -> None:
    """In the log, and by its run."""
    log = sent_and_done(client, thread, {"do": "fail"})
    ended = log[-1]
    assert (ended["body"]["outcome"], "it went wrong" in ended["body"]["reason"]) == ("failed", True)
    assert client.get(f"/v1/runs/{ended['run_id']}").json()["outcome"] == "failed"


@pytest.mark.parametrize("action", ["retry", "drop"])
def test_a_parked_turn_is_resolved_once(served: Served, client: httpx.Client, thread: str, action: str) -> None:
    """By a person; the second is told what stands."""
    log = sent_and_done(client, thread, "x")
    kept = served.store.threads[thread]
    turn_id = next(entry["body"]["turn_id"] for entry in log if entry["kind"] == "run_started")

    def park() -> None:
        kept.parked[4] = Parked(seq=4, turn_id=turn_id, leg=0, reason="its runner died 3 times")
        kept.thread = replace(kept.thread, parked=1)

    served.call(park)
    detail = client.get(path_of(thread)).json()
    assert detail["parked_turns"] == [{"seq": 4, "turn_id": turn_id, "reason": "its runner died 3 times"}]
    assert client.post(path_of(thread, "/parked/4"), json={"action": action}).status_code == 202
    other = {"retry": "drop", "drop": "retry"}[action]
    late = client.post(path_of(thread, "/parked/4"), json={"action": other})
    assert (late.status_code, late.json()["stands"]) == (409, action)
    assert client.get(path_of(thread)).json()["parked_turns"] == []


@pytest.mark.parametrize(
    ("seq", "body", "status"),
    [
        ("9", {"action": "retry"}, 404),
        ("0", {"action": "retry"}, 422),
        ("x", {"action": "retry"}, 422),
        ("9", {"action": "again"}, 422),
        ("9", {}, 422),
    ],
)
def test_what_is_not_parked_cannot_be_resolved(
    client: httpx.Client, thread: str, seq: str, body: dict[str, str], status: int
) -> None:
    """Nor by an action that is none."""
    sent_and_done(client, thread, "x")
    assert client.post(path_of(thread, f"/parked/{seq}"), json=body).status_code == status


@pytest.mark.parametrize("body", [None, {}, {"limit": 1}])
def test_a_sweep_reports_what_it_did(client: httpx.Client, body: dict[str, int] | None) -> None:
    """It needs no body."""
    response = client.post("/v1/recover") if body is None else client.post("/v1/recover", json=body)
    assert response.status_code == 200
    assert {"started", "held", "refused", "failed", "parked", "remaining", "complete", "seconds"} == set(
        response.json()
    )


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1", True, 10**7])
def test_a_sweep_of_no_number_of_threads_is_refused(client: httpx.Client, limit: object) -> None:
    """Nothing is converted."""
    response = client.post("/v1/recover", json={"limit": limit})
    assert response.status_code == 422
    assert "limit" in response.json()["detail"]


def test_the_counts_count(client: httpx.Client, thread: str) -> None:
    """Paused threads are paused, and none waits without having waited."""
    before = client.get("/v1/stats").json()
    paused_on(client, thread, "free")
    after = client.get("/v1/stats").json()
    assert after["paused"] == before["paused"] + 1
    assert after["workspace"] == "tests"


def test_a_page_of_the_log_ends_early_where_entries_are_large(client: httpx.Client, thread: str) -> None:
    """A thousand of them must not become a gibibyte in memory; `next` says where to go on."""
    log = sent_and_done(client, thread, {"do": "emit", "count": 40, "event": "x" * 500_000})
    page = client.get(path_of(thread, "/log"), params={"limit": 1000}).json()
    assert 10 < len(page["entries"]) < 40
    assert page["next"] == page["entries"][-1]["seq"]
    assert len(log) == 43
