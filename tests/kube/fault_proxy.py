"""A way to an API server on which chosen requests meet trouble: refused, unanswered, or done with the answer lost.

It speaks plain HTTP in front and as its kubeconfig's user behind, so a client needs no credentials for it. What no rule
is about is carried as it is, watches included.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession, web
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import load_kube_config

from tests.soak.waiting import pause

KEPT_HEADERS = ("Content-Type", "Accept", "Authorization")


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answered by the proxy; the server hears nothing of it."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is cut before the server hears of it, once something else has happened `meanwhile`."""

    meanwhile: Callable[[], Awaitable[object]] | None = None


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer ever comes; `done` says whether the server has done it."""

    done: bool = False


@dataclass(frozen=True, slots=True)
class Lose:
    """The server does it, `meanwhile` something else happens, and the connection is cut before the answer."""

    meanwhile: Callable[[], Awaitable[object]] | None = None


@dataclass(frozen=True, slots=True)
class Mute:
    """The answer begins, and nothing follows."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Carried after a while: the server is slow, or a webhook is."""

    seconds: float


Trouble = Refuse | Reset | Hang | Lose | Mute | Delay


@dataclass(slots=True)
class Rule:
    """What happens to the next requests of a method whose path holds a part; `times` counts down."""

    trouble: Trouble
    method: str
    part: str
    times: int


@dataclass(frozen=True, slots=True)
class Request:
    """One that came to the proxy, on a clock of this process; `connection` is the client's port."""

    method: str
    path: str
    at_seconds: float
    connection: int


@dataclass(slots=True)
class Limit:
    """So many writes a second, and a tenth of that at once."""

    per_second: float
    left: float = 0.0
    at_seconds: float = field(default_factory=time.monotonic)

    def lets_in(self) -> bool:
        """Count a write, unless it is one too many."""
        now = time.monotonic()
        self.left = min(self.left + (now - self.at_seconds) * self.per_second, self.per_second / 10)
        self.at_seconds = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass
class FaultProxy:
    """`requests` are those that came, in order, `refused` those over the limit; `met` counts what met trouble."""

    session: ClientSession
    upstream: str
    headers: dict[str, str]
    url: str = ""
    rules: list[Rule] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    refused: list[Request] = field(default_factory=list)
    met: int = 0
    limit: Limit | None = None
    watches: set[asyncio.Transport] = field(default_factory=set)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def trouble(self, trouble: Trouble, method: str, part: str = "", *, times: int = 1) -> None:
        """Let the next `times` requests meet trouble."""
        self.rules.append(Rule(trouble, method, part, times))

    def clear(self) -> None:
        """Let everything through again."""
        self.rules.clear()

    def limit_writes(self, per_second: float) -> None:
        """Answer 429 to what is more, as an overloaded API server does."""
        self.limit = Limit(per_second)

    def cut_watches(self) -> None:
        """Cut every watch that is open."""
        for transport in tuple(self.watches):
            transport.abort()

    def sent(self, method: str, part: str = "") -> list[Request]:
        """Return the requests of a method so far."""
        return [request for request in self.requests if request.method == method and part in request.path]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Carry one request, or let it meet its trouble."""
        connection: int = request.transport.get_extra_info("peername")[1] if request.transport is not None else 0
        came = Request(request.method, request.raw_path, time.monotonic(), connection)
        self.requests.append(came)
        if self.limit is not None and request.method != "GET" and not self.limit.lets_in():
            self.refused.append(came)
            return web.Response(status=429, headers={"Retry-After": "1"}, text="too many requests")
        match self._trouble_of(request):
            case Refuse(status, headers, body):
                return web.Response(status=status, headers=headers, text=body, content_type="application/json")
            case Reset(meanwhile):
                return await _cut(request, meanwhile)
            case Hang(done):
                if done:
                    await self._ask(request)
                return await _cut(request, self.ended.wait)
            case Delay(seconds):
                await pause(seconds)
            case Mute():
                response = web.StreamResponse()
                await response.prepare(request)
                return await _cut(request, self.ended.wait)
            case Lose(meanwhile):
                await self._ask(request)
                return await _cut(request, meanwhile)
        return await self._carry(request)

    def _trouble_of(self, request: web.BaseRequest) -> Trouble | None:
        for rule in self.rules:
            if rule.times and rule.method == request.method and rule.part in request.raw_path:
                rule.times -= 1
                self.met += 1
                return rule.trouble
        return None

    async def _ask(self, request: web.BaseRequest) -> tuple[int, bytes]:
        headers = self._headers(request)
        url, body = f"{self.upstream}{request.raw_path}", await request.read()
        async with self.session.request(request.method, url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def _carry(self, request: web.BaseRequest) -> web.StreamResponse:
        url, body = f"{self.upstream}{request.raw_path}", await request.read()
        async with self.session.request(request.method, url, data=body, headers=self._headers(request)) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers.get("Content-Type", "")}
            )
            await response.prepare(request)
            with self._counted(request), suppress(ConnectionResetError):  # the client may have gone away
                async for part in answer.content.iter_any():
                    await response.write(part)
                await response.write_eof()
            return response

    @contextmanager
    def _counted(self, request: web.BaseRequest) -> Iterator[None]:
        """Know an open watch, so that it can be cut."""
        transport = request.transport
        if transport is None or "watch=true" not in request.raw_path:
            yield
            return
        self.watches.add(transport)
        try:
            yield
        finally:
            self.watches.discard(transport)

    def _headers(self, request: web.BaseRequest) -> dict[str, str]:
        return self.headers | {name: request.headers[name] for name in KEPT_HEADERS if name in request.headers}


async def _cut(request: web.BaseRequest, meanwhile: Callable[[], Awaitable[object]] | None) -> web.Response:
    if meanwhile is not None:
        await meanwhile()
    if request.transport is not None:  # the client may have gone away
        request.transport.abort()
    return web.Response()


@asynccontextmanager
async def fault_proxy(kubeconfig: Path) -> AsyncIterator[FaultProxy]:
    """Yield a proxy before the API server of a kubeconfig."""
    configuration = Configuration()
    await load_kube_config(config_file=str(kubeconfig), client_configuration=configuration, persist_config=False)
    bearer = configuration.api_key.get("BearerToken")
    client = ApiClient(configuration)
    proxy = FaultProxy(
        client.rest_client.pool_manager, str(configuration.host), {"Authorization": bearer} if bearer else {}
    )
    server = web.Server(proxy.handle)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listening.close()
        proxy.ended.set()
        await server.shutdown(timeout=1)
        await client.close()


def kubeconfig_for(url: str, folder: Path, user: dict[str, str] | None = None) -> Path:
    """Write a kubeconfig for a server; JSON is YAML."""
    file = folder / "proxied.kubeconfig"
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": url}}],
            "users": [{"name": "it", "user": user or {}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
    )
    file.write_text(text, "utf-8")
    return file
