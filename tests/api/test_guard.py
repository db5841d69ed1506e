"""Who may ask, and under which name."""

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.api.served import Served, path_of, raw_call, serving

OLD, NEW = "old-token-0123456789", "new-token-0123456789"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    """A server with two tokens."""
    with serving(tokens=[OLD, NEW]) as server:
        yield server


def ask(served: Served, path: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """Call with the very headers."""
    lines = [f"{method} {path} HTTP/1.1", *headers, "Connection: close", "", ""]
    return raw_call(served, "\r\n".join(lines).encode("latin-1"))


CALLS = [
    ("GET", "/v1/threads"),
    ("GET", "/v1/threads/t"),
    ("GET", "/v1/threads/t/log"),
    ("GET", "/v1/threads/t/events"),
    ("GET", "/v1/threads/t/messages/m"),
    ("POST", "/v1/threads/t/messages"),
    ("POST", "/v1/threads/t/answers"),
    ("POST", "/v1/threads/t/parked/1"),
    ("GET", "/v1/runs/r"),
    ("POST", "/v1/runs/r/stop"),
    ("POST", "/v1/recover"),
    ("GET", "/v1/stats"),
    ("GET", "/metrics"),
    ("GET", "/no/such/path"),
    ("GET", "/livez/"),
    ("GET", "/v1/threads/%FF"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        f"Bearer {OLD}x",
        f"Bearer {OLD[:-1]}",
        f"Basic {OLD}",
        OLD,
        "Bearer \xe9",
    ],
)
def test_without_a_right_token_every_call_gets_401(guarded: Served, method: str, path: str, given: str | None) -> None:
    """Whether the path exists or not is told to nobody else."""
    headers = ["Host: runner.example", *([] if given is None else [f"Authorization: {given}"])]
    status, answered, body = ask(guarded, path, *headers, method=method)
    assert status == 401
    assert answered["www-authenticate"].startswith('Bearer realm="turnkeeper"')
    assert json.loads(body)["type"] == "urn:turnkeeper:problem:unauthorized"


@pytest.mark.parametrize("given", [f"Bearer {OLD}", f"Bearer {NEW}", f"bearer {NEW}", f"BEARER  {NEW}"])
def test_each_token_opens_and_any_host_will_do(guarded: Served, given: str) -> None:
    """Two are valid while one replaces the other."""
    status, _, _ = ask(guarded, "/v1/threads", "Host: runner.example", f"Authorization: {given}")
    assert status == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/docs", "/openapi.json"])
def test_probes_and_the_documentation_need_no_token(guarded: Served, path: str) -> None:
    """A kubelet and a browser have none at hand, and they say nothing of threads."""
    status, _, body = ask(guarded, path, "Host: 10.0.0.7:8765")
    assert status == 200
    assert OLD.encode() not in body


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[::2]"],
)
@pytest.mark.parametrize("path", ["/v1/threads", "/metrics", "/docs", "/no/such/path"])
def test_without_tokens_a_foreign_host_is_refused(served: Served, host: str, path: str) -> None:
    """A page can let a name of its own resolve to 127.0.0.1; it can't make the browser call it localhost."""
    status, _, body = ask(served, path, f"Host: {host}")
    assert status == 421
    assert json.loads(body)["type"] == "urn:turnkeeper:problem:host-refused"


@pytest.mark.parametrize("host", ["localhost", "localhost:8765", "127.0.0.1", "127.0.0.1:1", "[::1]:8765", "[::1]"])
def test_without_tokens_loopback_names_are_answered(served: Served, host: str) -> None:
    """With a port or without."""
    assert ask(served, "/v1/threads", f"Host: {host}")[0] == 200


def test_without_tokens_probes_are_answered_under_any_name(served: Served) -> None:
    """Whoever runs the process asks them by its address."""
    assert ask(served, "/livez", "Host: 10.0.0.7:8765")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil.example"]
)
@pytest.mark.parametrize("path", ["/v1/recover", "/v1/runs/r/stop", "/v1/threads/t/messages"])
def test_a_page_of_another_site_may_not_post(served: Served, origin: str, path: str) -> None:
    """Calls without a body are no business of the content type's; the Origin header tells."""
    status, _, body = ask(served, path, "Host: localhost:8765", f"Origin: {origin}", method="POST")
    assert status == 403
    assert json.loads(body)["type"] == "urn:turnkeeper:problem:forbidden-origin"


def test_a_page_of_the_very_host_may(served: Served) -> None:
    """An interface that is served beside the API, behind one name."""
    headers = ("Host: localhost:8765", "Origin: http://localhost:8765")
    assert ask(served, "/v1/recover", *headers, method="POST")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/", 404, "no-such-path"),
        ("GET", "/v1", 404, "no-such-path"),
        ("GET", "/v1/threads/t/logs", 404, "no-such-path"),
        ("GET", "/v1/threads/t/messages/m/x", 404, "no-such-path"),
        ("PUT", "/v1/threads", 405, "method-not-allowed"),
        ("DELETE", "/v1/threads/t", 405, "method-not-allowed"),
        ("GET", "/v1/recover", 405, "method-not-allowed"),
        ("OPTIONS", "/v1/threads/t/messages", 405, "method-not-allowed"),
        ("BREW", "/v1/threads", 405, "method-not-allowed"),
    ],
)
def test_an_unknown_path_or_method_is_a_problem_too(
    client: httpx.Client, method: str, path: str, status: int, kind: str
) -> None:
    """In the same form as every error."""
    response = client.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:turnkeeper:problem:{kind}"
    assert response.json()["status"] == status
    if status == 405:
        assert response.headers["allow"]


def test_a_post_to_a_faulty_path_does_not_cost_the_connection(client: httpx.Client, thread: str) -> None:
    """The next call on it is answered."""
    assert client.post(path_of(thread, "/nope"), json={"content": 1}).status_code == 404
    assert client.post(path_of(thread, "/messages"), json={"content": 1}).status_code == 202
