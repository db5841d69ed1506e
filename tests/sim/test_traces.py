"""The traces that `spec/run traces` takes from simulations: they are the same each time, tell enough, and break."""

import pytest

from tests.sim.trace import Part
from tests.sim.traces import SEEDS, copies, setting_of, traced

TOLD = {
    "Accept",
    "Adopt",
    "Append",
    "Arm",
    "AtRest",
    "Claim",
    "ClaimDeleted",
    "ClaimPutBack",
    "Crash",
    "DeathNotice",
    "DeclareDead",
    "End",
    "Fenced",
    "HandOver",
    "Interrupt",
    "LookAgain",
    "NothingOwed",
    "Refused",
    "Release",
    "Rest",
    "Restart",
    "SessionLost",
    "Start",
    "Steer",
    "Take",
}


@pytest.fixture(scope="module")
def parts() -> dict[str, Part]:
    """The threads of CI's simulations whose traces can be told."""
    found = {f"{seed} {name}": part for seed in SEEDS for name, part in traced(seed).parts.items()}
    return {name: part for name, part in found.items() if not part.untold}


def test_a_trace_is_the_same_each_time(parts: dict[str, Part]) -> None:
    """Names, order and numbers come from the seed alone."""
    assert traced(7).parts["t0"].events == parts["7 t0"].events


def test_the_traces_tell_of_every_action_that_a_simulation_can_show(parts: dict[str, Part]) -> None:
    """A check that no trace comes to would hold whatever the code did."""
    told = {event["action"] for part in parts.values() for event in part.events}
    assert told - {"TakeFails"} == TOLD  # one in hundreds of simulations: among the traces made by hand


def test_what_is_rare_is_among_them(parts: dict[str, Part]) -> None:
    """Answers that are lost, a takeover, a claim that is made again to be released, and both ways of taking."""
    events = [event for part in parts.values() for event in part.events]
    assert {event["action"] for event in events if "answer" in event} == {"Claim", "Start", "End"}
    assert any(event["action"] == "Start" and event["abandoned"] for event in events)
    assert any("late" in event for event in events)
    assert {setting_of(seed).fused for seed in SEEDS} == {True, False}


def test_each_kind_of_break_has_a_place(parts: dict[str, Part]) -> None:
    """Wrong copies differ from what they are copies of."""
    made = copies(parts, 1)
    for name, events in made.items():
        original = next(part.events for key, part in parts.items() if name.endswith(key))
        assert events != original
