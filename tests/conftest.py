"""Databases and clusters for the tests that need one, and the rule that in CI nothing is left out.

`sqlite_url` and `postgresql_url` are each a fresh, empty database; a test that takes `database_url` runs on both.
`kubeconfig` is a real API server's, and `namespace` a fresh one of it. They are there where TURNKEEPER_TEST_KUBECONFIG
names a kubeconfig file, or says `control-plane`: then etcd and an API server are built and started for the tests.
"""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.cluster.control_plane import control_plane
from tests.postgres_server import PostgresUnavailableError, postgres_server
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.resources import NAMESPACES

IN_CI = os.environ.get("CI", "").lower() in {"true", "1"}
GIVEN_CLUSTER = os.environ.get("TURNKEEPER_TEST_KUBECONFIG", "")
GIVEN_SERVER = os.environ.get("TURNKEEPER_TEST_POSTGRESQL_URL", "")


def pytest_configure() -> None:
    """Say that there is no loop. pytest-asyncio asks for one to put back, and the one made for it is never closed."""
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[URL]:
    """One server for a test process: the given one, else one from the wheel, started when first asked for.

    With pytest-xdist each worker has its own: it is up in under a second, which is cheaper than agreeing on one.
    """
    if GIVEN_SERVER:
        yield make_url(GIVEN_SERVER).set(drivername="postgresql+asyncpg")
        return
    try:
        with postgres_server(durable=False) as url:
            yield make_url(url)
    except PostgresUnavailableError as error:
        pytest.skip(f"no PostgreSQL: {error}")


@pytest.fixture
def postgresql_url(postgresql_server: URL) -> Iterator[str]:
    """A fresh PostgreSQL database, as a `postgresql+asyncpg://` URL; dropped afterwards, whoever is still connected."""
    name = f"turnkeeper_{uuid.uuid4().hex}"
    _command(postgresql_server, f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
    yield postgresql_server.set(database=name).render_as_string(hide_password=False)
    _command(postgresql_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite file that is not there yet, as a `sqlite://` URL."""
    return f"sqlite:///{tmp_path / 'journal.sqlite'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database of each kind in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def kubeconfig() -> Iterator[Path]:
    """The kubeconfig of a real API server, for one test process."""
    if GIVEN_CLUSTER == "control-plane":
        with control_plane() as plane:
            yield plane.kubeconfig
    else:
        yield Path(GIVEN_CLUSTER)


@pytest.fixture
def namespace(kubeconfig: Path) -> Iterator[str]:
    """A fresh namespace; deleted afterwards, as far as the cluster has somebody who does it."""
    name = f"turnkeeper-test-{uuid.uuid4().hex[:12]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _in_cluster(kubeconfig, lambda api: api.create(NAMESPACES, None, body))
    yield name
    _in_cluster(kubeconfig, lambda api: api.delete(NAMESPACES, None, name))


def _in_cluster(kubeconfig: Path, action: Callable[[KubeApi], Awaitable[object]]) -> None:
    """Do something in the cluster, from a thread of its own, as `_command` does."""

    async def send() -> None:
        api = await open_kube_api(deadline_seconds=30.0, kubeconfig=kubeconfig)
        try:
            await action(api)
        finally:
            await api.aclose()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, send()).result()


def _command(server: URL, statement: str) -> None:
    """Send one statement, from a thread of its own: the test's event loop, real or virtual, is left alone."""

    async def send() -> None:
        engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
        try:
            async with engine.connect() as connection:
                await connection.execute(text(statement))
        finally:
            await engine.dispose()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, send()).result()


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI a test that was left out has failed: a green run must mean that everything ran."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was left out, and in CI that is a failure. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where nothing may be skipped."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as it is collected."""
    report = yield
    _refuse_skip(report)
    return report
