"""Who this client is and how it reaches the API server: identity, tokens, connections.

Theory. A connection that went silent looks like a slow server: a call on it ends by its deadline, and every other idle
connection of the pool is then likely as dead. So after a call without an answer the whole pool is retired: the next
call connects anew, and the old pool is closed once nobody uses it. A projected token is a file that the kubelet writes
anew long before the token ends; it is read again every `TOKEN_SECONDS`, and whenever the server says 401.

A pod's identity is three files, read here. A person's is a kubeconfig, with plug-ins and much else: kubernetes-asyncio
knows all that. It is loaded for that alone, since it brings its 40 MiB of generated models with it, a third of what a
whole runner may take.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from turnkeeper import __version__
from turnkeeper.adapters.kube.answers import Call
from turnkeeper.errors import SettingsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod finds its token and the cluster's authority."""

TOKEN_SECONDS = 60.0
"""How long a token that was read is used unread: the kubelet replaces it when a fifth of its life is left, 2 min at the
shortest life there is."""

CONNECT_PARTS = 2
"""A connection may take this part of a call's deadline, so that a host that swallows it is told from a lost answer."""

CONNECTIONS_MAX = 32
"""Arbitrary: more calls at once than a runner ever has; what comes on top waits within its deadline."""

LINE_BYTES_MAX = 2**21
"""Half of the longest line of a watch: an object of 1.5 MiB, etcd's largest, and its escapes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An API server, and as whom to speak to it. bearer: a whole Authorization header, or "" with a certificate."""

    server: str
    bearer: str = ""
    context: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    users: int = 0
    is_retired: bool = False


class Connection:
    """Sends calls under one identity, on one loop. Made by `open_connection`."""

    def __init__(self, identity: Identity, kubeconfig: str | None, *, is_in_pod: bool) -> None:
        self.identity = identity
        self._kubeconfig = kubeconfig
        self._is_in_pod = is_in_pod
        self._read_seconds = time.monotonic()
        self._pool: _Pool | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def send(self, call: Call, deadline_seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer's head; its body is still to be read. Raises aiohttp's errors; the deadline is the caller's.

        deadline_seconds: of the whole call, for what a connection may take of it.
        """
        if self._is_in_pod and time.monotonic() - self._read_seconds > TOKEN_SECONDS:
            await self.read_identity()
        pool = self._in_use()
        pool.users += 1
        response: aiohttp.ClientResponse | None = None
        try:
            response = await pool.session.request(
                call.method,
                f"{self.identity.server}{call.path}",
                params=dict(call.query),
                headers=self._headers(call),
                data=call.body_text,
                proxy=self.identity.proxy,
                server_hostname=self.identity.server_name,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=deadline_seconds / CONNECT_PARTS),
                allow_redirects=False,
            )
            yield response
        except (aiohttp.ClientError, TimeoutError, OSError, asyncio.CancelledError):
            self._retire(pool)
            raise
        finally:
            if response is not None:
                response.close()  # gives up the connection unless the answer was read to its end
            pool.users -= 1
            self._close_if_unused(pool)

    async def read_identity(self) -> bool:
        """Read again who this client is; True if its token is another one than before."""
        before = self.identity.bearer
        self._read_seconds = time.monotonic()
        try:
            self.identity = await _identity(self._kubeconfig, is_in_pod=self._is_in_pod)
        except SettingsError:
            return False  # a file in the middle of being replaced: the old token is still good for a while
        return self.identity.bearer != before

    async def aclose(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            self._retire(self._pool, force=True)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"turnkeeper/{__version__}"}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return headers | ({"Authorization": self.identity.bearer} if self.identity.bearer else {})

    def _in_use(self) -> _Pool:
        if self._pool is None:
            connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=self.identity.context or True)
            session = aiohttp.ClientSession(
                connector=connector, trust_env=True, read_bufsize=LINE_BYTES_MAX, cookie_jar=aiohttp.DummyCookieJar()
            )
            # Else a replace or delete whose answer was lost would be sent again unseen, and its own doing met as 404.
            session._retry_connection = False  # noqa: SLF001 - there is no public switch; a test sees if it is lost
            self._pool = _Pool(session)
        return self._pool

    def _retire(self, pool: _Pool, *, force: bool = False) -> None:
        pool.is_retired = True
        if self._pool is pool:
            self._pool = None
        self._close_if_unused(pool, force=force)

    def _close_if_unused(self, pool: _Pool, *, force: bool = False) -> None:
        if pool.is_retired and (force or pool.users == 0) and not pool.session.closed:
            closing = asyncio.ensure_future(pool.session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def open_connection(kubeconfig: Path | None = None) -> Connection:
    """Return the connection of a kubeconfig, else of this pod's service account, else of the user's own kubeconfig.

    Raises SettingsError where there is none of them.
    """
    is_in_pod = kubeconfig is None and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    file = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG")
    return Connection(await _identity(file, is_in_pod=is_in_pod), file, is_in_pod=is_in_pod)


async def _identity(kubeconfig: str | None, *, is_in_pod: bool) -> Identity:
    try:
        return _identity_of_pod() if is_in_pod else await _identity_of_kubeconfig(kubeconfig)
    except OSError as error:
        where = "this pod's service account" if is_in_pod else kubeconfig or "~/.kube/config"
        advice = "mount a service account token" if is_in_pod else "set KUBECONFIG to a file that names one"
        raise SettingsError(f"no way to a Kubernetes API server: {where}: {error}; {advice}") from error


def _identity_of_pod() -> Identity:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
    token = (SERVICE_ACCOUNT / "token").read_text("ascii").strip()
    if not token:
        raise OSError("its token is empty")
    return Identity(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        bearer=f"Bearer {token}",
        context=ssl.create_default_context(cafile=SERVICE_ACCOUNT / "ca.crt"),
    )


async def _identity_of_kubeconfig(kubeconfig: str | None) -> Identity:
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - it weighs 40 MiB, and a pod has no use for it
    from yaml import YAMLError  # noqa: PLC0415 - beside what raises it

    found = client.Configuration()
    try:
        await config.load_kube_config(config_file=kubeconfig, client_configuration=found, persist_config=False)
    except (config.ConfigException, YAMLError) as error:
        raise OSError(str(error)) from error
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if found.cert_file:
        context.load_cert_chain(found.cert_file, keyfile=found.key_file)
    if not found.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return Identity(
        server=str(found.host),
        bearer=str(found.api_key.get("BearerToken") or "").strip(),
        context=context,
        server_name=found.tls_server_name,
        proxy=found.proxy,
    )
