"""Traces made wrong in one place, each in a way that the specification must refuse.

A break is made where it is one: what nobody can tell from the rest of a trace is left alone, as a hand-over that is
missing where the process takes the thread again anyway.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tests.sim.trace import Event

Events = list[Event]
Break = Callable[[Events, int], Events | None]
"""Returns the events, broken at a place; None where that is no place for it."""

_FORGIVES = frozenset({"Take", "Arm", "Crash", "SessionLost"})
"""After these nobody can tell whether the process had read what it had to read."""


def broken(events: Sequence[Event], seed: str) -> Iterator[tuple[str, Events]]:
    """Yield one copy of a trace for each kind of break that it has a place for, the place drawn from the seed."""
    for name, make in BREAKS.items():
        places = list(range(len(events)))
        random.Random(f"{name} {seed}").shuffle(places)
        for place in places:
            made = make([dict(event) for event in events], place)
            if made is not None:
                yield name, made
                break


def _drop(action: str) -> Break:
    def make(events: Events, place: int) -> Events | None:
        return [*events[:place], *events[place + 1 :]] if events[place]["action"] == action else None

    return make


def _release_missing(events: Events, place: int) -> Events | None:
    """A run ended, and its claim is kept."""
    if not _is_own_release(events, place):
        return None
    return [*events[:place], *events[place + 1 :]]


def _is_own_release(events: Events, place: int) -> bool:
    """Whether it follows the end of a run or its refusal: a release that is tried once more changes nothing."""
    event = events[place]
    before = [other for other in events[:place] if other.get("process") == event.get("process")]
    return event["action"] == "Release" and bool(before) and before[-1]["action"] in {"End", "Interrupt", "Fenced"}


def _hand_over_missing(events: Events, place: int) -> Events | None:
    """Nobody reads the cursors after the last release of a process."""
    event = events[place]
    after = [other["action"] for other in events[place + 1 :] if other.get("process") == event.get("process")]
    if event["action"] != "HandOver" or _FORGIVES & set(after):
        return None
    return [*events[:place], *events[place + 1 :]]


def _death_missing(events: Events, place: int) -> Events | None:
    """A claim is taken from a session that nobody declared dead."""
    event = events[place]
    if event["action"] not in {"DeclareDead", "DeathNotice"} or _standing(events[:place]) != event["session"]:
        return None
    after = [
        other for other in events[place:] if other["action"] in {"Claim", "Release", "ClaimDeleted", "ClaimPutBack"}
    ]
    if not after or after[0]["action"] != "Claim" or after[0]["session"] == event["session"]:
        return None
    return [*events[:place], *events[place + 1 :]]


def _standing(events: Events) -> object:
    """Return the session whose claim stands at the end of these events."""
    session: object = None
    for event in events:
        if event["action"] in {"Claim", "ClaimPutBack"}:
            session = event["session"]
        elif event["action"] == "ClaimDeleted" or (event["action"] == "Release" and event["session"] == session):
            session = None
    return session


def _swap(first: str, second: str) -> Break:
    """Exchange an event with the next one of the same process, where that is the one which it makes possible."""

    def make(events: Events, place: int) -> Events | None:
        event = events[place]
        mine = (n for n in range(place + 1, len(events)) if events[n].get("process") == event.get("process"))
        after = next(mine, None)
        if event["action"] != first or after is None or events[after]["action"] != second:
            return None
        events[place], events[after] = events[after], events[place]
        return events

    return make


def _change(action: str, key: str, by: int) -> Break:
    def make(events: Events, place: int) -> Events | None:
        value = events[place].get(key)
        if events[place]["action"] != action or not isinstance(value, int) or "late" in events[place]:
            return None
        events[place][key] = value + by
        return events

    return make


def _session_changed(events: Events, place: int) -> Events | None:
    """A claim is made in the name of another process's session."""
    event = events[place]
    others = [
        other["session"]
        for other in events[:place]
        if other["action"] == "Restart" and other["process"] != event.get("process")
    ]
    if event["action"] != "Claim" or "late" in event or not others:
        return None
    event["session"] = others[-1]
    return events


def _untold(events: Events) -> Events:
    """Leave out what entries are numbered: then the protocol must refuse, and not the count."""
    return [{key: value for key, value in event.items() if key not in {"seq", "abandoned"}} for event in events]


def _stale_write(events: Events, place: int) -> Events | None:
    """A run goes on to write after another has taken its thread over."""
    event = events[place]
    if event["action"] != "Start" or not event["abandoned"]:
        return None
    runs = [other for other in events[:place] if other["action"] == "Start"]
    if not runs or runs[-1]["process"] == event["process"]:
        return None
    stale: Event = {"action": "Append", "process": runs[-1]["process"], "thread": event["thread"]}
    return _untold([*events[: place + 1], stale, *events[place + 1 :]])


def _claim_of_the_living(events: Events, place: int) -> Events | None:
    """Who was refused claims all the same."""
    event = events[place]
    if event["action"] != "Refused":
        return None
    claims = [other for other in events[:place] if other["action"] in {"Claim", "ClaimPutBack"}]
    mine = [
        e for e in events[:place] if e.get("process") == event["process"] and e["action"] in {"Restart", "SessionLost"}
    ]
    token = claims[-1]["token"]
    assert isinstance(token, int)
    event.update(action="Claim", session=mine[-1]["session"], token=token + 1)
    return events


def _end_missing(events: Events, place: int) -> Events | None:
    """A run is never ended, and its claim released."""
    made = _drop("End")(events, place)
    return None if made is None or "answer" in events[place] else _untold(made)


BREAKS: dict[str, Break] = {
    "release_missing": _release_missing,
    "hand_over_missing": _hand_over_missing,
    "death_missing": _death_missing,
    "accept_missing": _drop("Accept"),
    "start_missing": _drop("Start"),
    "end_missing": _end_missing,
    "append_missing": _drop("Append"),
    "start_before_claim": _swap("Claim", "Start"),
    "release_before_end": _swap("End", "Release"),
    "hand_over_before_release": _swap("Release", "HandOver"),
    "token_lowered": _change("Claim", "token", -1),
    "token_raised": _change("Claim", "token", 1),
    "token_of_another_run": _change("End", "token", -1),
    "attempt_skipped": _change("Start", "attempt", 1),
    "taken_too_far": _change("End", "taken", 1),
    "taken_too_little": _change("Start", "taken", -1),
    "session_of_another": _session_changed,
    "stale_write": _stale_write,
    "claim_of_the_living": _claim_of_the_living,
}
