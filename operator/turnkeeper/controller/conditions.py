"""From what was seen of a Workspace to what it says of itself. Pure; each message says what is, and what would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnkeeper.controller.pods import PodSeen
from turnkeeper.controller.recovery import Swept

WAITS_INTERVALS: Final = 2
"""A thread that has waited longer than a ttl and so many sweeps is stranded, not late."""

SHOWN_MAX: Final = 3
"""Pods whose trouble is told one by one."""

MESSAGE_MAX: Final = 2000
"""Characters of a message. Arbitrary: what `kubectl describe` shows without drowning the rest."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps the spec from being acted on: a word, and a sentence that says what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was seen. acted_generation: of the spec that was last acted on in full. swept: None before the first."""

    generation: int
    acted_generation: int | None
    wanted: int
    is_suspended: bool
    claim_ttl_seconds: float
    interval_seconds: float
    pods: Sequence[PodSeen]
    problem: Problem | None = None
    swept: Swept | None = None

    @property
    def ready(self) -> int:
        """Runners that are ready."""
        return sum(pod.is_ready and not pod.is_leaving for pod in self.pods)


@dataclass(frozen=True, slots=True)
class Said:
    """A condition without its time."""

    type: str
    status: str
    reason: str
    message: str


def say(facts: Facts) -> tuple[Said, ...]:
    """Return all conditions."""
    return tuple(
        Said(kind, status, reason, message[:MESSAGE_MAX])
        for kind, (status, reason, message) in (
            ("Ready", _ready(facts)),
            ("JournalReachable", _journal(facts)),
            ("Recovered", _recovered(facts)),
            ("Stalled", _stalled(facts)),
        )
    )


def _ready(facts: Facts) -> tuple[str, str, str]:
    if facts.is_suspended:
        return "False", "Suspended", "No runner takes turns. What is asked waits; set spec.suspend to false to go on."
    if facts.ready:
        kept = _kept(facts)
        return "True", "RunnersReady", f"{facts.ready} of {facts.wanted} runners are ready.{kept}"
    if facts.problem is not None and facts.acted_generation is None:
        return "False", facts.problem.reason, facts.problem.message
    if facts.wanted == 0:
        return "False", "NoRunners", "spec.runner.replicas is 0. What is asked waits for a runner."
    if trouble := _troubles(facts):
        return "False", "RunnerCannotStart", trouble
    if facts.swept is not None and facts.swept.unready:
        return "False", "RunnersNotReady", "; ".join(facts.swept.unready[:SHOWN_MAX])
    return "False", "RunnersStarting", f"0 of {facts.wanted} runners are ready; {len(facts.pods)} pods there are."


def _journal(facts: Facts) -> tuple[str, str, str]:
    swept = facts.swept
    if swept is not None and swept.stats is not None:
        return "True", "RunnersReachIt", "Runners read and write the journal."
    if swept is not None and swept.journal_away:
        return "False", "RunnersDoNotReachIt", f"{swept.journal_away}. Check the URL in the Secret and the database."
    return "Unknown", "NoRunnerTells", "No runner is there to tell."


def _recovered(facts: Facts) -> tuple[str, str, str]:
    swept = facts.swept
    if swept is None or (swept.runners == 0 and not swept.failures):
        return "Unknown", "NoRunnerSwept", "No ready runner could be asked yet; what is owed waits for one."
    if swept.failures:
        told = "; ".join(swept.failures[:SHOWN_MAX])
        return "False", "SweepFails", f"{len(swept.failures)} of {swept.runners} runners could not be asked: {told}"
    report = swept.report
    if report.failed:
        return "False", "SweepFails", f"{report.failed} threads could not be read or taken. The runners' logs say why."
    if _is_stranded(facts, swept):
        waited = swept.stats.oldest_owed_seconds if swept.stats else 0.0
        advice = (
            "every runner is full: raise runner.maxTurns or runner.replicas"
            if report.remaining
            else "the runners' logs say what keeps it"
        )
        return "False", "ThreadStranded", f"A thread has waited {_about(waited)} for its turn; {advice}."
    if report.remaining:
        message = "Threads wait for room; if that lasts, raise runner.maxTurns or runner.replicas."
        return "False", "RunnersFull", message
    return "True", "Swept", "The last sweep left nothing behind."


def _stalled(facts: Facts) -> tuple[str, str, str]:
    if facts.problem is not None:
        return "True", facts.problem.reason, facts.problem.message + _kept(facts)
    if trouble := _troubles(facts):
        others = f" {facts.ready} runners that were started before go on." if facts.ready else ""
        return "True", "RunnerCannotStart", trouble + others
    return "False", "AsAsked", "Everything is as the spec asks."


def _kept(facts: Facts) -> str:
    """Tell that the runners go on under an earlier spec, where they do."""
    if facts.problem is None or facts.acted_generation in {None, facts.generation}:
        return ""
    return f" Runners go on under the spec of generation {facts.acted_generation}."


def _troubles(facts: Facts) -> str:
    found = [f"{pod.name}: {pod.trouble}" for pod in facts.pods if pod.trouble and not pod.is_leaving]
    more = f"; and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
    return "; ".join(found[:SHOWN_MAX]) + more + ("." if found else "")


def _is_stranded(facts: Facts, swept: Swept) -> bool:
    bound = facts.claim_ttl_seconds + WAITS_INTERVALS * facts.interval_seconds
    return swept.stats is not None and swept.stats.owed > 0 and swept.stats.oldest_owed_seconds > bound


def _about(seconds: float) -> str:
    """Return a time in words that change rarely, so that a status that says it is not written each second."""
    for unit, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"over {int(seconds // unit)} {name}"
    return "over a minute" if seconds >= 60 else "too long"  # noqa: PLR2004 - 60 seconds are a minute


def merge(said: Sequence[Said], old: Sequence[dict[str, Any]], generation: int, now: str) -> list[dict[str, Any]]:
    """Return the conditions as the status has them; each keeps its time while its status stays."""
    before = {each.get("type"): each for each in old}
    merged = []
    for condition in said:
        earlier = before.get(condition.type, {})
        is_same = earlier.get("status") == condition.status and earlier.get("lastTransitionTime")
        merged.append(
            {
                "type": condition.type,
                "status": condition.status,
                "observedGeneration": generation,
                "lastTransitionTime": earlier["lastTransitionTime"] if is_same else now,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    return merged
