"""Sending, receipts, and what asking again gets."""

import httpx
import pytest

from tests.api.served import Served, path_of, sent_and_done
from turnkeeper.errors import UnavailableError, UnknownOutcomeError


def test_a_message_is_accepted_with_its_place_in_the_log_and_its_run(client: httpx.Client, thread: str) -> None:
    """202 with all that a client needs to follow it."""
    response = client.post(path_of(thread, "/messages"), json={"content": "hello", "message_id": "m-1"})
    told = response.json()
    assert response.status_code == 202
    assert (told["message_id"], told["seq"], told["outcome"]) == ("m-1", 1, "started")
    run = client.get(f"/v1/runs/{told['run_id']}").json()
    assert (run["thread"], run["run_id"], run["attempt"]) == (thread, told["run_id"], 1)


def test_a_message_without_an_id_gets_one(client: httpx.Client, thread: str) -> None:
    """Two of the same words are two messages."""
    first, second = (client.post(path_of(thread, "/messages"), json={"content": "hello"}).json() for _ in range(2))
    assert first["message_id"] != second["message_id"]
    assert second["seq"] > first["seq"]


def test_the_same_message_again_gets_the_receipt_and_is_not_taken_twice(client: httpx.Client, thread: str) -> None:
    """A client that lost the answer asks again."""
    body = {"content": {"a": [1, None]}, "message_id": "m-1", "sender": "alice", "mode": "queue"}
    assert client.post(path_of(thread, "/messages"), json=body).status_code == 202
    again = client.post(path_of(thread, "/messages"), json=body)
    assert again.status_code == 200
    assert (again.json()["message_id"], again.json()["seq"]) == ("m-1", 1)
    log = sent_and_done(client, thread, "next")
    messages = [entry["body"]["message_id"] for entry in log if entry["kind"] == "message"]
    assert messages[0] == "m-1"
    assert len(messages) == 2


@pytest.mark.parametrize(
    "other", [{"content": "other"}, {"content": "a", "sender": "bob"}, {"content": "a", "mode": "queue"}]
)
def test_another_body_under_the_same_id_is_told_what_stands(
    client: httpx.Client, thread: str, other: dict[str, str]
) -> None:
    """Neither overwritten nor lost without a word."""
    client.post(path_of(thread, "/messages"), json={"content": "a", "message_id": "m-1"})
    response = client.post(path_of(thread, "/messages"), json={"message_id": "m-1", **other})
    problem = response.json()
    assert response.status_code == 409
    assert (problem["thread"], problem["message_id"]) == (thread, "m-1")
    assert problem["stands"] in {"pending", "started"}


def test_null_is_a_content_and_nothing_is_none(client: httpx.Client, thread: str) -> None:
    """A field that is absent must not be taken for null."""
    assert client.post(path_of(thread, "/messages"), json={"content": None}).status_code == 202
    absent = client.post(path_of(thread, "/messages"), json={"message_id": "m-1"})
    assert absent.status_code == 422
    assert "content is missing" in absent.json()["detail"]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({"content": 1, "contents": 2}, "contents"),
        ({"content": 1, "mode": "shout"}, "mode"),
        ({"content": 1, "mode": None}, "mode"),
        ({"content": 1, "message_id": 7}, "message_id"),
        ({"content": 1, "message_id": None}, "message_id"),
        ({"content": 1, "message_id": ""}, "message id"),
        ({"content": 1, "message_id": "a\nb"}, "control characters"),
        ({"content": 1, "message_id": ".."}, "'..'"),
        ({"content": 1, "message_id": "é" * 257}, "512 bytes"),
        ({"content": 1, "sender": ""}, "sender"),
        ({"content": 1, "sender": "a\x7f"}, "sender"),
        ([1], "object"),
        ("content", "object"),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused_by_it(client: httpx.Client, thread: str, body: object, hint: str) -> None:
    """Nothing is recorded."""
    response = client.post(path_of(thread, "/messages"), json=body)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert hint in response.json()["detail"]
    assert client.get(path_of(thread)).status_code == 404


def test_a_note_asks_for_nothing(client: httpx.Client, thread: str) -> None:
    """The thread stays idle."""
    response = client.post(path_of(thread, "/messages"), json={"content": "fyi", "mode": "note", "message_id": "n"})
    assert (response.status_code, response.json()["outcome"]) == (202, "noted")
    assert client.get(path_of(thread)).json()["state"] == "idle"
    assert client.get(path_of(thread, "/messages/n")).json()["fate"] == "noted"


def test_a_message_to_a_running_thread_steers_it(client: httpx.Client, thread: str) -> None:
    """And its receipt names the run that used it."""
    first = client.post(path_of(thread, "/messages"), json={"content": {"do": "steer"}}).json()
    second = client.post(path_of(thread, "/messages"), json={"content": "left", "message_id": "s"}).json()
    assert (second["outcome"], second["run_id"]) == ("steered", first["run_id"])
    log = sent_and_done(client, thread, "bye")
    assert [entry["body"].get("answer") for entry in log if entry["kind"] == "run_ended"] == [["left"], "bye"]
    receipt = client.get(path_of(thread, "/messages/s")).json()
    assert (receipt["fate"], receipt["run_id"]) == ("steered", first["run_id"])


def test_a_receipt_of_what_was_never_sent_is_not_found(client: httpx.Client, thread: str) -> None:
    """In a thread that exists, and in one that does not."""
    client.post(path_of(thread, "/messages"), json={"content": 1})
    for of in (thread, f"{thread}-none"):
        response = client.get(path_of(of, "/messages/m-9"))
        assert response.status_code == 404
        assert response.json()["message_id"] == "m-9"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (UnknownOutcomeError("the database's answer was lost"), "unknown-outcome"),
        (UnavailableError("the database is away"), "unavailable"),
    ],
)
def test_a_lost_answer_says_to_send_again_under_the_id(
    served: Served, client: httpx.Client, fault: Exception, kind: str
) -> None:
    """The id that was made up for the client is told, or it could never ask again safely."""
    served.journal.fault = fault
    try:
        response = client.post(path_of("faulty", "/messages"), json={"content": "x"})
    finally:
        served.journal.fault = None
    problem = response.json()
    assert response.status_code == 503
    assert problem["type"].endswith(f":{kind}")
    assert int(response.headers["retry-after"]) >= 1
    assert problem["message_id"] in problem["detail"]
    again = client.post(path_of("faulty", "/messages"), json={"content": "x", "message_id": problem["message_id"]})
    assert again.status_code == 202


def test_an_error_nobody_foresaw_tells_nothing_of_the_inside(served: Served, client: httpx.Client) -> None:
    """No traceback, no message of a driver; and the next call is answered."""
    served.journal.fault = RuntimeError("secret of the inside")
    try:
        response = client.post(path_of("faulty", "/messages"), json={"content": "x"})
    finally:
        served.journal.fault = None
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert client.get("/v1/threads").status_code == 200
