"""DBOS Transact for Python, as its documentation advises: a queue partitioned by key, one turn of a key at a time.

* "Queues & Concurrency", "Partitioning Queues": at most one task of a user at a time is a queue that is partitioned by
  the user with a concurrency of one. Of one partition's workflows the oldest is taken first.
* "Enqueueing from Another Application": a `DBOSClient` with the queue's and the workflow's name.
* "Workflow Recovery", "In a Distributed Setting": each process has an executor id; when a process starts with an
  executor id again, it recovers the workflows of that executor, and no others. Without DBOS Conductor, a service apart
  from the library, nobody else does.

A turn is a workflow without steps: what must be durable of it are its enqueueing, its start and its end.

The fastest that it allows: a queue is polled every second unless told otherwise. There is no other setting that a
recovery waits for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.peers.clients.peer import Told, Turn
from bench.peers.load import Send

APPLICATION = "turns"
VERSION = "1"
"""Set, not computed from the code: every process of the benchmark runs the same."""

QUEUE = "turns"
FAST_POLL_SECONDS = 0.02
"""Tried: less takes more of the two cores than it gives back."""


class DbosPeer:
    """See `peer.Peer`."""

    def __init__(self, told: Told) -> None:
        self._url = told.url.replace("postgresql://", "postgresql+psycopg://")
        self._poll_seconds = FAST_POLL_SECONDS if told.fast else 1.0
        self._config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._url,
            "application_version": VERSION,
            "executor_id": told.identity,
            "log_level": "WARNING",
        }

    async def prepare(self) -> None:
        """See `peer.Peer`."""
        DBOS(config=self._config)
        DBOS.launch()
        await DBOS.register_queue_async(QUEUE, partition_concurrency=1, polling_interval_sec=self._poll_seconds)
        DBOS.destroy()

    @asynccontextmanager
    async def working(self, turn: Turn) -> AsyncIterator[None]:
        """See `peer.Peer`."""
        DBOS(config=self._config)

        @DBOS.workflow(name="turn")
        async def run(key: str, text: str) -> None:
            await turn(key, text)

        DBOS.launch()
        try:
            yield
        finally:
            DBOS.destroy()

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Send]:
        """See `peer.Peer`."""
        client = DBOSClient(system_database_url=self._url)

        async def send(key: str, text: str) -> None:
            options: EnqueueOptions = {
                "queue_name": QUEUE,
                "workflow_name": "turn",
                "queue_partition_key": key,
                "app_version": VERSION,
                "application_name": APPLICATION,
            }
            await client.enqueue_async(options, key, text)

        try:
            yield send
        finally:
            client.destroy()


peer = DbosPeer
