"""Procrastinate, as its documentation advises: a lock for each key, and a periodic task that retries stalled jobs.

* "Ensure jobs run sequentially and in order": `configure(lock=key).defer_async(…)`; jobs of one lock run one at a time,
  in the order in which they were deferred.
* "Launch a worker", "Concurrency": one asynchronous worker that runs several jobs at once; PostgreSQL's notifications
  on, which is the default.
* "Retry stalled jobs": without a task of one's own a job whose worker was killed stays as it is for ever. The periodic
  task of that page is used as it stands there: every tenth minute, for workers silent for 30 seconds.

The fastest that it allows: a heartbeat, its bound and the periodic task's schedule are all free. The schedule takes
seconds as a sixth field, so the task runs each second; a worker counts as stalled after a second without any of
its four heartbeats.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import procrastinate

from bench.peers.clients.peer import Told, Turn
from bench.peers.load import Send

CONCURRENCY = 32
"""A job for each key of the benchmark, as turnkeeper's default is."""

POOL_SIZE = 16
"""Arbitrary: above the pool's default of four, which worker, listener, client and 32 jobs would share."""

HEARTBEAT_SECONDS, STALLED_SECONDS = 10.0, 30.0
"""What the library has unless it is told otherwise."""

FAST_HEARTBEAT_SECONDS = 0.25
FAST_STALLED_SECONDS = 1.0


class ProcrastinatePeer:
    """See `peer.Peer`."""

    def __init__(self, told: Told) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=told.url, max_size=POOL_SIZE)
        self._app = procrastinate.App(connector=connector)
        self._turn: Turn | None = None
        self._fast = told.fast

        @self._app.task(name="turn")
        async def turn(key: str, text: str) -> None:
            assert self._turn is not None
            await self._turn(key, text)

        self._task = turn

    def _retry_stalled(self) -> None:
        """Make the documentation's periodic task known to the application."""
        seconds = FAST_STALLED_SECONDS if self._fast else STALLED_SECONDS

        @self._app.periodic(cron="* * * * * */1" if self._fast else "*/10 * * * *")
        @self._app.task(queueing_lock="retry_stalled_jobs", name="retry_stalled_jobs", pass_context=True)
        async def retry_stalled_jobs(context: procrastinate.JobContext, timestamp: int) -> None:
            del context, timestamp
            stalled = await self._app.job_manager.get_stalled_jobs(seconds_since_heartbeat=seconds)
            for job in stalled:
                await self._app.job_manager.retry_job(job)

    async def prepare(self) -> None:
        """See `peer.Peer`."""
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    @asynccontextmanager
    async def working(self, turn: Turn) -> AsyncIterator[None]:
        """See `peer.Peer`."""
        self._turn = turn
        self._retry_stalled()
        async with self._app.open_async():
            worker = asyncio.create_task(
                self._app.run_worker_async(
                    concurrency=CONCURRENCY,
                    install_signal_handlers=False,
                    shutdown_graceful_timeout=5.0,
                    update_heartbeat_interval=FAST_HEARTBEAT_SECONDS if self._fast else HEARTBEAT_SECONDS,
                    stalled_worker_timeout=FAST_STALLED_SECONDS if self._fast else STALLED_SECONDS,
                )
            )
            try:
                yield
            finally:
                worker.cancel()
                await asyncio.gather(worker, return_exceptions=True)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Send]:
        """See `peer.Peer`."""

        async def send(key: str, text: str) -> None:
            await self._task.configure(lock=key).defer_async(key=key, text=text)

        async with self._app.open_async():
            yield send


peer = ProcrastinatePeer
