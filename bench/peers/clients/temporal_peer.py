"""Temporal, as its documentation advises: a workflow for each key, messages as signals, an activity for each turn.

* "Signal-With-Start": one call starts the key's workflow if there is none, and signals it.
* "Handling Messages", "Ensure your handlers don't…": the handler puts what comes into a queue, and the workflow's main
  method takes one after the other, so that turns are in order.
* "Continue-As-New": before the history grows too long, when the server suggests it.
* "Activity Timeouts": one of start-to-close and schedule-to-close must be set, to more than an activity may take. A
  turn may take an hour here. That alone, without the heartbeats that nobody has unless he asks, is the default.

The fastest that it allows ("Activity Heartbeats", "Retry Policy"): an activity that sends heartbeats is tried again
once none came for its heartbeat timeout. No page gives a least one. The SDK passes heartbeats on each 0.8 of it, so of
0.3 s there are 60 ms left for one to be late. On a busy machine that was noticed after 1.4 to 2.2 s, and a timeout of a
second after 1 to 2.7. The first retry's interval is a second unless it is set.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench.peers.clients.peer import Told, Turn
    from bench.peers.load import Send

NAMESPACE = "default"
TURN_MAX = timedelta(hours=1)
RETENTION = timedelta(days=1)
FAST_HEARTBEAT = timedelta(milliseconds=300)
FAST_RETRY = timedelta(milliseconds=50)
BEAT_SECONDS = 0.05
"""How often an activity offers a heartbeat; the SDK sends as many as the timeout needs."""

ACTIVITIES = 32
"""Turns at once, as turnkeeper's default is."""

KNOWN_SECONDS = 60.0
"""How long a namespace may take to be known to every part of the service: it is read anew every ten seconds."""


@workflow.defn(name="thread")
class Thread:
    """One key: takes its messages one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()

    @workflow.signal
    def message(self, text: str) -> None:
        """Keep a message until its turn."""
        self._waiting.append(text)

    @workflow.run
    async def run(self, key: str, fast: bool, left: list[str]) -> None:  # noqa: FBT001 - Temporal hands on by position
        """Take turns for ever; `left`: what an earlier run of the workflow left behind."""
        self._waiting.extendleft(reversed(left))
        while not workflow.info().is_continue_as_new_suggested():
            await workflow.wait_condition(lambda: bool(self._waiting))
            await workflow.execute_activity(
                "turn",
                args=[key, self._waiting.popleft()],
                start_to_close_timeout=TURN_MAX,
                heartbeat_timeout=FAST_HEARTBEAT if fast else None,
                retry_policy=RetryPolicy(initial_interval=FAST_RETRY) if fast else None,
            )
        workflow.continue_as_new(args=[key, fast, list(self._waiting)])


async def beat() -> None:
    """Say again and again that the activity is alive."""
    while True:
        activity.heartbeat()
        await asyncio.sleep(BEAT_SECONDS)


class TemporalPeer:
    """See `peer.Peer`."""

    def __init__(self, told: Told) -> None:
        self._address, _, self._queue = told.url.partition("/")
        self._identity = told.identity
        self._fast = told.fast

    async def _client(self) -> Client:
        return await Client.connect(self._address, namespace=NAMESPACE, identity=self._identity)

    async def prepare(self) -> None:
        """See `peer.Peer`."""
        client = await self._client()
        request = RegisterNamespaceRequest(namespace=NAMESPACE)
        request.workflow_execution_retention_period.FromTimedelta(RETENTION)
        await client.workflow_service.register_namespace(request)
        async with asyncio.timeout(KNOWN_SECONDS):
            while True:
                try:
                    await client.start_workflow("none", id="none", task_queue="none", execution_timeout=RETENTION)
                except RPCError as error:
                    if error.status != RPCStatusCode.NOT_FOUND:
                        raise
                    await asyncio.sleep(0.5)
                else:
                    return

    @asynccontextmanager
    async def working(self, turn: Turn) -> AsyncIterator[None]:
        """See `peer.Peer`."""

        @activity.defn(name="turn")
        async def run(key: str, text: str) -> None:
            beats = asyncio.create_task(beat()) if self._fast else None
            try:
                await turn(key, text)
            finally:
                if beats is not None:
                    beats.cancel()

        async with Worker(
            await self._client(),
            task_queue=self._queue,
            workflows=[Thread],
            activities=[run],
            max_concurrent_activities=ACTIVITIES,
        ):
            yield

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Send]:
        """See `peer.Peer`."""
        client = await self._client()

        async def send(key: str, text: str) -> None:
            await client.start_workflow(
                "thread",
                args=[key, self._fast, []],
                id=f"{self._queue}-{key}",
                task_queue=self._queue,
                start_signal="message",
                start_signal_args=[text],
            )

        yield send


peer = TemporalPeer
