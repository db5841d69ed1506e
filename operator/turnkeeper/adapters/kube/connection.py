"""Who this client is and how it reaches the API server: configuration, tokens, connections.

Theory. A connection that went silent looks like a slow server: a call on it ends by its deadline, and every other idle
connection of the pool is then likely as dead. So after a call without an answer the whole pool is retired: the next
call connects anew, and the old pool is closed once nobody uses it. A projected token is a file that the kubelet writes
anew long before the token ends; it is read again every `TOKEN_SECONDS`, and whenever the server says 401.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from kubernetes_asyncio.client import ApiClient, Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config, load_kube_config
from yaml import YAMLError

from turnkeeper import __version__
from turnkeeper.adapters.kube.answers import Call
from turnkeeper.errors import SettingsError

TOKEN_SECONDS = 60.0
"""How long a token that was read is used unread: the kubelet replaces it when a fifth of its life is left, 2 min at the
shortest life there is."""

CONNECT_PARTS = 2
"""A connection may take this part of a call's deadline, so that a host that swallows it is told from a lost answer."""

CONNECTIONS_MAX = 32
"""Arbitrary: more calls at once than a runner ever has; what comes on top waits within its deadline."""


@dataclass(slots=True)
class _Pool:
    client: ApiClient
    users: int = 0
    is_retired: bool = False


class Connection:
    """Sends calls under this client's identity. Made by `open_connection`, used on one loop."""

    def __init__(self, configuration: Configuration, *, is_in_cluster: bool, kubeconfig: str | None) -> None:
        self._configuration = configuration
        self._is_in_cluster = is_in_cluster
        self._kubeconfig = kubeconfig
        self._read_seconds = time.monotonic()
        self._pool: _Pool | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def send(self, call: Call, deadline_seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer's head; its body is still to be read. Raises aiohttp's errors; the deadline is the caller's.

        deadline_seconds: of the whole call, for what a connection may take of it.
        """
        if self._is_in_cluster and time.monotonic() - self._read_seconds > TOKEN_SECONDS:
            await self.read_credentials()
        pool = self._in_use()
        pool.users += 1
        response: aiohttp.ClientResponse | None = None
        try:
            response = await pool.client.rest_client.request(
                call.method,
                f"{self._configuration.host}{call.path}",
                query_params=dict(call.query),
                headers=self._headers(call),
                body=call.body,
                _preload_content=False,
                _request_timeout=aiohttp.ClientTimeout(total=None, sock_connect=deadline_seconds / CONNECT_PARTS),
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

    async def read_credentials(self) -> bool:
        """Read this client's identity again; True if it is another one than before."""
        before = self._bearer
        try:
            self._configuration = await _load(self._kubeconfig, is_in_cluster=self._is_in_cluster)
        except (ConfigException, OSError):
            return False  # a file in the middle of being replaced: the old token is still good for a while
        self._read_seconds = time.monotonic()
        return self._bearer != before

    async def aclose(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            self._retire(self._pool, force=True)
        await asyncio.gather(*self._closing, return_exceptions=True)

    @property
    def _bearer(self) -> str:
        return str(self._configuration.api_key.get("BearerToken", "")).strip()

    def _headers(self, call: Call) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"turnkeeper/{__version__}"}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return headers | ({"Authorization": self._bearer} if self._bearer else {})

    def _in_use(self) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(ApiClient(self._configuration))
        return self._pool

    def _retire(self, pool: _Pool, *, force: bool = False) -> None:
        pool.is_retired = True
        if self._pool is pool:
            self._pool = None
        self._close_if_unused(pool, force=force)

    def _close_if_unused(self, pool: _Pool, *, force: bool = False) -> None:
        if pool.is_retired and (force or pool.users == 0):
            closing = asyncio.ensure_future(pool.client.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


async def open_connection(kubeconfig: Path | None = None) -> Connection:
    """Return the connection of a kubeconfig, else of this pod's service account, else of the user's own kubeconfig.

    Raises SettingsError where there is none of them.
    """
    is_in_cluster = kubeconfig is None and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    file = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG")
    try:
        configuration = await _load(file, is_in_cluster=is_in_cluster)
    except (ConfigException, OSError, YAMLError) as error:
        where = "this pod's service account" if is_in_cluster else file or "~/.kube/config"
        advice = "mount a service account token" if is_in_cluster else "set KUBECONFIG to a file that names one"
        raise SettingsError(f"no way to a Kubernetes API server: {where}: {error}; {advice}") from error
    return Connection(configuration, is_in_cluster=is_in_cluster, kubeconfig=file)


async def _load(kubeconfig: str | None, *, is_in_cluster: bool) -> Configuration:
    configuration = Configuration()
    if is_in_cluster:
        load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]  # the library's
    else:
        await load_kube_config(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
    configuration.connection_pool_maxsize = CONNECTIONS_MAX
    return configuration
