"""Thread ids: any that the rule allows, each its own thread, byte for byte back; any other refused by the rule."""

import json
import unicodedata
from urllib.parse import quote

import httpx
import pytest

from tests.api.served import Served, path_of, raw_call, sent_and_done

ALLOWED = [
    "a/b",
    "/",
    "//",
    "a/messages",
    "%",
    "%2F",
    "100%",
    "?a=b&c",
    "#frag",
    "a b",
    " ",
    "+",
    "a+b",
    "...",
    ".a",
    "trailing.",
    ";v=1",
    "a:b@c",
    "~!*'()[]{}|\\^`<>\"",
    "😀",
    "👨‍👩‍👧",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "Ünïcödé",
    "ꙮ" * 170,
    "x" * 512,
    "\u2028",
    "\u202eabc",
    "\ufeff",
    "ａ",
    "A",
    "a",
    "null",
    "0",
]
FORBIDDEN = {
    "empty": "",
    "a dot": "%2E",
    "two dots": "%2e%2E",
    "NUL": "a%00b",
    "a line break": "%0A",
    "DEL": "%7F",
    "a C1 control": "%C2%85",
    "513 bytes": "x" * 513,
    "171 letters of three bytes": quote("ꙮ" * 171),
    "a byte that is no UTF-8": "%FF",
    "half a letter": "%C3",
    "an overlong slash": "%C0%AF",
    "a surrogate": "%ED%A0%BD",
    "a broken escape": "%zz",
    "an escape cut short": "a%2",
    "a bare percent sign": "100%",
}


@pytest.mark.parametrize("thread_id", ALLOWED, ids=ascii)
def test_each_allowed_id_is_a_thread_of_its_own_and_comes_back_byte_for_byte(
    served: Served, client: httpx.Client, thread_id: str
) -> None:
    """Written as any client should write it: percent-encoded, '/' too."""
    log = sent_and_done(client, thread_id, {"id": thread_id})
    assert log[0]["body"]["content"] == {"id": thread_id}
    assert [entry["seq"] for entry in log] == list(range(1, len(log) + 1))
    assert client.get(path_of(thread_id)).json()["thread"] == thread_id
    assert thread_id in served.store.threads
    before = client.get("/v1/threads", params={"limit": 1000}).json()["threads"]
    assert [each["thread"] for each in before].count(thread_id) == 1


def test_ids_that_look_alike_are_different_threads(client: httpx.Client) -> None:
    """Nothing is normalised, folded or trimmed on the way."""
    alike = ["look/é", unicodedata.normalize("NFD", "look/é"), "LOOK/é", "look/é ", "look%2Fé", "ｌook/é", "look/é."]
    for number, thread_id in enumerate(alike):
        client.post(path_of(thread_id, "/messages"), json={"content": number, "message_id": "m"})
    contents = [client.get(path_of(thread_id, "/log")).json()["entries"][0]["body"]["content"] for thread_id in alike]
    assert contents == list(range(len(alike)))


@pytest.mark.parametrize("raw", FORBIDDEN.values(), ids=FORBIDDEN.keys())
@pytest.mark.parametrize("rest", ["", "/log", "/events", "/messages/m"])
def test_each_forbidden_id_is_refused_with_the_rule(served: Served, raw: str, rest: str) -> None:
    """By every call, as it comes over the wire: 422, never 500, never another thread."""
    request = f"GET /v1/threads/{raw}{rest} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, headers, body = raw_call(served, request.encode("ascii"))
    assert status == 422
    assert headers["content-type"] == "application/problem+json"
    problem = json.loads(body)
    assert problem["type"] == "urn:turnkeeper:problem:invalid-id"
    assert "must be 1 to 512 bytes" in problem["detail"] or "hexadecimal" in problem["detail"]


def test_other_ids_in_a_path_keep_the_same_rule(served: Served) -> None:
    """A message's and a run's."""
    for path in ("/v1/threads/t/messages/%00", "/v1/runs/%FF", "/v1/runs/.."):
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert raw_call(served, request.encode("ascii"))[0] == 422


def test_a_slash_that_is_not_encoded_is_told_how(served: Served) -> None:
    """It makes another path, and the commonest mistake deserves a word."""
    request = b"GET /v1/threads/a/b/log HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    status, _, body = raw_call(served, request)
    assert status == 404
    assert "%2F" in json.loads(body)["detail"]


def test_threads_are_paged_by_id_whatever_is_in_it(client: httpx.Client) -> None:
    """`next` is the id itself; given as `after` it goes on right behind it."""
    ids = [f"page/{mark}" for mark in ("", " ", "%", "&after=", "+", "é", "😀", "ﬀ")]
    for thread_id in ids:
        client.post(path_of(thread_id, "/messages"), json={"content": 1})
    seen: list[str] = []
    after: str | None = "page."
    while after is not None and (not seen or after.startswith("page/")):
        page = client.get("/v1/threads", params={"after": after, "limit": 2}).json()
        seen += [each["thread"] for each in page["threads"]]
        after = page["next"]
    assert [thread_id for thread_id in seen if thread_id.startswith("page/")] == sorted(ids)
    assert len(seen) == len(set(seen))


def test_threads_may_be_asked_for_by_state(client: httpx.Client, thread: str) -> None:
    """Only those, and a state that is none is refused with those there are."""
    client.post(path_of(thread, "/messages"), json={"content": {"do": "hold"}})
    found = client.get("/v1/threads", params={"state": "running", "limit": 1000}).json()["threads"]
    assert thread in {each["thread"] for each in found}
    assert {each["state"] for each in found} == {"running"}
    refused = client.get("/v1/threads", params={"state": "asleep"})
    assert refused.status_code == 422
    assert "'running'" in refused.json()["detail"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1.5", "limits=1", "after=%00"]
)
def test_a_page_that_cannot_be_is_refused_with_a_reason(client: httpx.Client, query: str) -> None:
    """Never cut to what would do: the client would not notice."""
    response = client.get(f"/v1/threads?{query}")
    assert response.status_code == 422
    assert query.partition("=")[0] in response.json()["detail"]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "after=9007199254740992", "limit=1001", "seq=1"])
def test_a_page_of_the_log_that_cannot_be_is_refused_too(client: httpx.Client, thread: str, query: str) -> None:
    """The same for its positions."""
    client.post(path_of(thread, "/messages"), json={"content": 1})
    response = client.get(f"{path_of(thread, '/log')}?{query}")
    assert response.status_code == 422
    assert query.partition("=")[0] in response.json()["detail"]


def test_a_query_that_is_no_utf8_is_refused(client: httpx.Client) -> None:
    """Its repair would name another thread."""
    response = client.get("/v1/threads?after=%FF")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
