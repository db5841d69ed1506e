"""Runners in this process whose sessions and claims are Leases, joined as in a pod, over a journal in memory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.contract.stores import DEADLINE_SECONDS, WORKSPACE
from tests.stand_ins import Counting, Script, Scripted
from turnkeeper.adapters.kube.api import open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.lease_records import Place
from turnkeeper.adapters.kube.lease_roster import LeaseRoster
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.adapters.polling_hints import PollingHints
from turnkeeper.adapters.two_step import TwoStepTaking
from turnkeeper.ports import Claims, Journal
from turnkeeper.runner.drive import Tools
from turnkeeper.runner.options import RunnerOptions
from turnkeeper.runner.renewal_thread import RenewalThread
from turnkeeper.runner.service import Runner


@contextlib.asynccontextmanager
async def lease_runner(
    name: str, journal: Journal, place: Place, kubeconfig: Path, script: Script, **options: float | None
) -> AsyncIterator[Runner]:
    """A runner at work, with a client each for claims, renewals and the watch."""
    clock, observer = MachineClock(), Counting()
    given = RunnerOptions(runner=name, **options)  # type: ignore[arg-type] # options are given by their names

    async def connect() -> tuple[Claims, Callable[[], Awaitable[None]]]:
        api = await open_kube_api(deadline_seconds=DEADLINE_SECONDS / 2, kubeconfig=kubeconfig)
        return LeaseClaims(api, place, clock, deadline_seconds=DEADLINE_SECONDS), api.aclose

    async with contextlib.AsyncExitStack() as stack:
        claims, close = await connect()
        stack.push_async_callback(close)
        watching = await open_kube_api(deadline_seconds=DEADLINE_SECONDS / 2, kubeconfig=kubeconfig)
        stack.push_async_callback(watching.aclose)
        ttl = given.claim_ttl_seconds
        roster = LeaseRoster(watching, place, claim_ttl_seconds=ttl, deadline_seconds=DEADLINE_SECONDS)
        await stack.enter_async_context(roster)
        taking = TwoStepTaking(journal, claims, clock)
        stack.push_async_callback(taking.aclose)
        tools = Tools(
            workspace=WORKSPACE,
            journal=journal,
            taking=taking,
            hints=PollingHints(journal, clock),
            clock=clock,
            handler=Scripted(script),
            observer=observer,
            options=given,
        )
        yield await stack.enter_async_context(Runner(tools, claims, RenewalThread(connect), roster))
