"""One sweep of one Workspace: every ready runner is asked to take what is owed, then one is asked how things stand.

Every runner, and not one behind the Service: the sweep of one that is full, or about to die, takes nothing, and what
nobody has heard of waits for the next interval (the spec's refutation `one_sweeper`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnkeeper.controller.pods import PodSeen
from turnkeeper.controller.runner_calls import Report, RunnerCalls, ThreadStats
from turnkeeper.errors import UnavailableError
from turnkeeper.settings.pod_variables import JOURNAL_AWAY

ROUNDS_MAX: Final = 20
"""How often one runner is asked within one sweep while it starts turns and is not done."""

ASKED_AT_ONCE: Final = 8
"""Runners of one Workspace that are asked at once: they would all fetch the same threads."""


NOTHING_DONE: Final = Report()


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep found. failures: of runners that could not be asked, each with its name."""

    runners: int = 0
    report: Report = NOTHING_DONE
    failures: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    stats: ThreadStats | None = None
    journal_away: str = ""
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether everybody was asked and nothing is left."""
        return self.runners > 0 and not self.failures and self.report.complete and not self.report.failed


async def sweep(calls: RunnerCalls, pods: Sequence[PodSeen], token: str) -> Swept:
    """Sweep. Raises nothing for a runner that does not answer."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    ready = [pod for pod in pods if pod.is_ready and not pod.is_leaving and pod.address]
    room = asyncio.Semaphore(ASKED_AT_ONCE)
    answers = await asyncio.gather(*(_recover(calls, pod, token, room) for pod in ready))
    reports = [answer for answer in answers if isinstance(answer, Report)]
    failures = tuple(answer for answer in answers if isinstance(answer, str))
    unready = await asyncio.gather(
        *(_reasons(calls, pod) for pod in pods if pod.is_running and not pod.is_ready and not pod.is_leaving)
    )
    stats = await _stats(calls, ready, token)
    told = tuple(text for text in unready if text)
    return Swept(
        runners=len(answers),
        report=_together(reports),
        failures=failures,
        unready=told,
        stats=stats,
        journal_away=next((text for text in told if JOURNAL_AWAY in text), ""),
        seconds=loop.time() - began,
    )


async def _recover(calls: RunnerCalls, pod: PodSeen, token: str, room: asyncio.Semaphore) -> Report | str:
    """Return what a runner did, in all its rounds, or why it could not be asked."""
    started = parked = 0
    last = NOTHING_DONE
    try:
        async with room:
            for _ in range(ROUNDS_MAX):
                last = await calls.recover(pod.address, token)
                started, parked = started + last.started, parked + last.parked
                if last.complete or not last.started:
                    break
    except UnavailableError as error:
        return f"{pod.name}: {error}"
    return Report(started, last.held, last.refused, last.failed, parked, last.remaining, last.complete)


async def _reasons(calls: RunnerCalls, pod: PodSeen) -> str:
    if not pod.address:
        return ""
    try:
        found = await calls.reasons(pod.address)
    except UnavailableError:
        return ""  # a process on its way; its pod says what there is to say
    return f"{pod.name}: {'; '.join(found)}" if found else ""


async def _stats(calls: RunnerCalls, ready: Sequence[PodSeen], token: str) -> ThreadStats | None:
    for pod in ready:
        try:
            return await calls.stats(pod.address, token)
        except UnavailableError:
            continue
    return None


def _together(reports: Sequence[Report]) -> Report:
    """Return what all did. What is left is what each of them left: they see the same threads."""
    return Report(
        started=sum(report.started for report in reports),
        held=max((report.held for report in reports), default=0),
        refused=sum(report.refused for report in reports),
        failed=sum(report.failed for report in reports),
        parked=sum(report.parked for report in reports),
        remaining=min((report.remaining for report in reports), default=0),
        complete=any(report.complete for report in reports),
    )
