"""What a Workspace says of itself: each case that a person may meet, its word, and that the text says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.controller.workspaces import NAMES, UID
from turnkeeper.controller.conditions import Facts, Problem, merge, say
from turnkeeper.controller.events import news
from turnkeeper.controller.manifests.names import UID_LABEL
from turnkeeper.controller.pods import PodSeen, pod_seen
from turnkeeper.controller.recovery import Swept
from turnkeeper.controller.runner_calls import Report, ThreadStats
from turnkeeper.controller.status import status_of
from turnkeeper.settings.workspace_status import WorkspaceStatus

READY = PodSeen(
    name="first-runner-a",
    uid="p1",
    workspace_uid=UID,
    address="10.0.0.1",
    is_ready=True,
    is_running=True,
    is_leaving=False,
    life=0,
    trouble="",
)
STUCK = replace(
    READY, name="first-runner-b", is_ready=False, is_running=False, trouble="ImagePullBackOff: no such image"
)
CALM = ThreadStats(owed=0, running=1, paused=0, parked=0, oldest_owed_seconds=0.0)
SWEPT = Swept(runners=1, stats=CALM)
FACTS = Facts(
    generation=2,
    acted_generation=2,
    wanted=1,
    is_suspended=False,
    claim_ttl_seconds=30,
    interval_seconds=30,
    pods=[READY],
    swept=SWEPT,
)
REFUSED = Problem("Refused", "The API server refuses its Deployment: no.")
LONG = replace(CALM, owed=2, oldest_owed_seconds=91.0)


def told(facts: Facts) -> dict[str, tuple[str, str, str]]:
    """Each condition's status, reason and message."""
    return {said.type: (said.status, said.reason, said.message) for said in say(facts)}


CASES: list[tuple[str, Facts, str, str, str, str]] = [
    ("all is well", FACTS, "Ready", "True", "RunnersReady", "1 of 1"),
    ("all is well", FACTS, "JournalReachable", "True", "RunnersReachIt", ""),
    ("all is well", FACTS, "Recovered", "True", "Swept", ""),
    ("all is well", FACTS, "Stalled", "False", "AsAsked", ""),
    ("suspended", replace(FACTS, is_suspended=True, pods=[]), "Ready", "False", "Suspended", "spec.suspend to false"),
    ("scaled to none", replace(FACTS, wanted=0, pods=[]), "Ready", "False", "NoRunners", "spec.runner.replicas is 0"),
    ("just made", replace(FACTS, pods=[], swept=None), "Ready", "False", "RunnersStarting", "0 of 1"),
    ("just made", replace(FACTS, pods=[], swept=None), "Recovered", "Unknown", "NoRunnerSwept", ""),
    ("bad image", replace(FACTS, pods=[STUCK]), "Ready", "False", "RunnerCannotStart", "no such image"),
    ("bad image, an old one runs", replace(FACTS, pods=[READY, STUCK]), "Ready", "True", "RunnersReady", ""),
    (
        "bad image, an old one runs",
        replace(FACTS, pods=[READY, STUCK]),
        "Stalled",
        "True",
        "RunnerCannotStart",
        "1 runners that were started before go on",
    ),
    (
        "refused at once",
        replace(FACTS, acted_generation=None, problem=REFUSED, pods=[]),
        "Ready",
        "False",
        "Refused",
        "no.",
    ),
    (
        "bad edit",
        replace(FACTS, generation=3, problem=REFUSED),
        "Stalled",
        "True",
        "Refused",
        "Runners go on under the spec of generation 2",
    ),
    ("bad edit", replace(FACTS, generation=3, problem=REFUSED), "Ready", "True", "RunnersReady", "generation 2"),
    (
        "journal away",
        replace(
            FACTS,
            pods=[replace(READY, is_ready=False)],
            swept=Swept(
                unready=("a: the journal can't be reached: x",), journal_away="a: the journal can't be reached: x"
            ),
        ),
        "JournalReachable",
        "False",
        "RunnersDoNotReachIt",
        "Check the URL",
    ),
    (
        "a runner does not answer",
        replace(FACTS, swept=replace(SWEPT, runners=2, failures=("b: it answers 500",))),
        "Recovered",
        "False",
        "SweepFails",
        "1 of 2 runners could not be asked: b: it answers 500",
    ),
    (
        "threads can't be read",
        replace(FACTS, swept=replace(SWEPT, report=Report(failed=3, complete=False))),
        "Recovered",
        "False",
        "SweepFails",
        "3 threads",
    ),
    (
        "full",
        replace(FACTS, swept=replace(SWEPT, report=Report(remaining=9, complete=False))),
        "Recovered",
        "False",
        "RunnersFull",
        "raise runner.maxTurns",
    ),
    (
        "stranded",
        replace(FACTS, swept=replace(SWEPT, stats=LONG)),
        "Recovered",
        "False",
        "ThreadStranded",
        "over a minute",
    ),
    (
        "a ttl and two sweeps are no stranding",
        replace(FACTS, swept=replace(SWEPT, stats=replace(LONG, oldest_owed_seconds=90.0))),
        "Recovered",
        "True",
        "Swept",
        "",
    ),
]


@pytest.mark.parametrize(("case", "facts", "kind", "status", "reason", "part"), CASES)
def test_each_case_is_told(case: str, facts: Facts, kind: str, status: str, reason: str, part: str) -> None:
    """In a status for programs, a word for alerts and a sentence for people."""
    found = told(facts)[kind]
    assert found[:2] == (status, reason), case
    assert part in found[2], case
    assert found[2].rstrip()[-1] in ".…" or "; " in found[2] or ":" in found[2], case


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    """Since when it is so, not when it was last said."""
    old = merge(say(FACTS), [], 2, "then")
    new = {each["type"]: each for each in merge(say(replace(FACTS, pods=[], wanted=2)), old, 3, "now")}
    assert new["Ready"]["lastTransitionTime"] == "now"
    assert new["Recovered"]["lastTransitionTime"] == "then"
    assert new["Recovered"]["observedGeneration"] == 3


def test_a_status_that_tells_nothing_new_is_the_same() -> None:
    """A sweep each interval must not be a write each interval."""
    first = status_of(NAMES, FACTS, {}, {"replicas": 1}, "then")
    later = replace(FACTS, swept=replace(SWEPT, seconds=0.7))
    assert status_of(NAMES, later, first, {"replicas": 1}, "now") == first
    started = replace(FACTS, swept=replace(SWEPT, report=Report(started=1)))
    changed = status_of(NAMES, started, first, {"replicas": 1}, "now")
    assert (changed["lastRecover"]["time"], changed["lastRecover"]["started"]) == ("now", 1)


@pytest.mark.parametrize(("old", "seconds", "new"), [(100, 105.0, 100), (100, 120.0, 120), (100, 0.0, 0), (0, 3.9, 3)])
def test_a_wait_is_written_anew_when_it_has_grown(old: int, seconds: float, new: int) -> None:
    """It grows each second; what is read by an alert is the metric."""
    facts = replace(FACTS, swept=replace(SWEPT, stats=replace(CALM, oldest_owed_seconds=seconds)))
    assert status_of(NAMES, facts, {"oldestOwedSeconds": old}, {}, "now")["oldestOwedSeconds"] == new


@pytest.mark.parametrize("facts", [case[1] for case in CASES])
def test_each_status_fits_the_definition(facts: Facts) -> None:
    """What does not fit would be refused, and nobody would be told of anything."""
    status = status_of(NAMES, facts, {}, {"replicas": 1}, "2026-01-01T00:00:00Z")
    read = WorkspaceStatus.model_validate(status)
    assert read.model_dump(by_alias=True, exclude_none=True, mode="json") == status


def _news(old: Facts | None, new: Facts) -> list[tuple[str, bool]]:
    before = status_of(NAMES, old, {}, {}, "then") if old else {}
    return [(each.reason, each.is_warning) for each in news(before, status_of(NAMES, new, before, {}, "now"))]


def test_what_changed_is_told_once() -> None:
    """Trouble as a warning, its end as news, and what is on its way not at all."""
    starting = replace(FACTS, pods=[], swept=None)
    stuck = replace(FACTS, pods=[STUCK], swept=None)
    assert _news(None, starting) == []
    assert _news(starting, stuck) == [("RunnerCannotStart", True), ("RunnerCannotStart", True)]
    assert _news(stuck, stuck) == []
    assert _news(stuck, FACTS) == [("RunnersReady", False), ("AsAsked", False)]
    assert _news(FACTS, FACTS) == []
    assert _news(FACTS, replace(FACTS, swept=replace(SWEPT, stats=LONG))) == [("ThreadStranded", True)]
    assert _news(FACTS, replace(FACTS, is_suspended=True, pods=[], swept=None)) == [("Suspended", False)]


def test_a_turn_that_is_parked_is_told_each_time() -> None:
    """A person has to decide; nobody else will."""
    one, two = (replace(FACTS, swept=replace(SWEPT, stats=replace(CALM, parked=count))) for count in (1, 2))
    assert _news(FACTS, one) == [("TurnParked", True)]
    assert _news(one, two) == [("TurnParked", True)]
    assert _news(two, one) == []


POD: dict[str, Any] = {
    "metadata": {"name": "a", "uid": "1", "labels": {UID_LABEL: UID}},
    "status": {"phase": "Running", "podIP": "10.0.0.9"},
}


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        ({"containerStatuses": [{"name": "runner", "state": {"running": {}}}]}, ""),
        ({"containerStatuses": [{"name": "runner", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        (
            {
                "containerStatuses": [
                    {"name": "runner", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
                ]
            },
            "ErrImagePull: no",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "runner",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                    }
                ]
            },
            "CrashLoopBackOff: back-off 10s; it ended before: OOMKilled, exit 137",
        ),
        (
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                ]
            },
            "Unschedulable: 0/1 nodes",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"},
            "Evicted: The node was low on",
        ),
        ({"containerStatuses": [{"name": "sidecar", "state": {"waiting": {"reason": "ErrImagePull"}}}]}, ""),
    ],
)
def test_what_keeps_a_pod_is_told_in_its_own_words(status: dict[str, Any], trouble: str) -> None:
    """Of the runner's container, the scheduler or the kubelet."""
    seen = pod_seen({**POD, "status": {**POD["status"], **status}})
    assert seen.trouble.startswith(trouble)
    assert bool(seen.trouble) == bool(trouble)
