"""What threads cost the API server: their claims, and nothing while they run, whoever asks of them meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy, Request, kubeconfig_for
from tests.kube.lease_runners import lease_runner
from tests.soak.waiting import pause, until_true
from turnkeeper.core.cursor import NewMessage
from turnkeeper.core.values import Json
from turnkeeper.ports import Journal, Turn
from turnkeeper.runner.service import Runner

TTL_SECONDS = 6.0
THREADS = 25


async def at_a_word(turn: Turn) -> Json:
    """Run until a message says that it is enough."""
    while (await turn.next_steer()).content != "enough":
        pass
    return None


def kinds(requests: list[Request]) -> Counter[str]:
    """Count requests by what they are for."""
    found: Counter[str] = Counter()
    for request in requests:
        what = "claim" if "/tk-claim-" in request.path else "session" if "/tk-session-" in request.path else "leases"
        found[f"{request.method} {'watch' if 'watch=true' in request.path else what}"] += 1
    return found


@pytest.mark.slow
async def test_running_threads_refused_messages_and_sweeps_cost_no_request(
    store: LeaseStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    """For longer than a ttl, so that each look comes due once: renewals of two sessions, and nothing for any thread."""
    kubeconfig, journals = kubeconfig_for(proxy.url, tmp_path), [await store.journal() for _ in range(2)]
    options = {"claim_ttl_seconds": TTL_SECONDS, "sweep_interval_seconds": 1.0}
    threads = [f"t{number}" for number in range(THREADS)]
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str, journal: Journal) -> Runner:
            running = lease_runner(name, journal, store.place(), kubeconfig, at_a_word, **options)
            return await stack.enter_async_context(running)

        holder = await start("runner-0", journals[0])
        await asyncio.gather(*(holder.send(each, NewMessage(message_id="1", content="go")) for each in threads))
        drives = holder._taker.drives
        await until_true(lambda: all(each.execution for each in drives.values()), "every thread runs")
        assert len(drives) == THREADS
        other = await start("runner-1", journals[1])  # not sooner: it would try for what is accepted and does not run
        await until_true(lambda: other._presence.exists(holder._keeper.session), "the holder is known")
        await until_true(lambda: len(other._looks) == THREADS, "its first sweep is over")
        await pause(TTL_SECONDS / 10)
        proxy.requests.clear()
        for number in range(3):
            sent = [await other.send(each, NewMessage(message_id=f"more {number}", content="more")) for each in threads]
            assert {each.outcome for each in sent} == {"steered"}
            assert (await other.recover()).held == THREADS
            await pause(TTL_SECONDS / 2)
        assert len(other._looks) == THREADS
        asked = kinds(proxy.requests)
        assert asked.pop("PATCH session") <= 2 * (1.5 + 1) * 3
        assert asked.pop("GET watch", 0) <= 2
        assert not asked
        proxy.requests.clear()
        for each in threads:
            await other.send(each, NewMessage(message_id="enough", content="enough"))
        await until_true(lambda: not holder._taker.drives, "every turn has ended")
        asked = kinds(proxy.requests)
        assert asked["DELETE claim"] == THREADS
        assert asked["POST leases"] == asked["PUT claim"] == 0
