"""The checks at the end: on the journal itself, against what the clients know and what the handlers did."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tests.invariants import ThreadDump, breaches
from tests.soak.clients import Accepted
from turnkeeper.core.words import Fate, Kind, Outcome


def all_breaches(
    dumps: Sequence[ThreadDump], accepted: Sequence[Accepted], tried: Collection[tuple[str, str]], effects: Path
) -> list[str]:
    """Return every breach; none is what is wanted."""
    return [
        *breaches(dumps, at_rest=True),
        *_accepted_is_there(dumps, accepted, tried),
        *_sent_in_order(accepted),
        *_effects_stand(dumps, effects),
    ]


def _accepted_is_there(
    dumps: Sequence[ThreadDump], accepted: Sequence[Accepted], tried: Collection[tuple[str, str]]
) -> Iterator[str]:
    """What was answered 2xx is in the log once, where and as the client was told, and nothing that nobody sent."""
    known = {(each.thread_id, each.message_id): each for each in accepted}
    if len(known) != len(accepted):
        yield "AcceptedIsThere: a client had one message accepted twice"
    seen: set[tuple[str, str]] = set()
    for dump in dumps:
        for entry in dump.of(Kind.MESSAGE):
            name = (dump.row.thread_id, str(entry.body["message_id"]))
            sent = known.pop(name, None)
            if sent is None:
                if name in seen or name not in tried:
                    yield f"AcceptedIsThere: {dump.name}: the message at {entry.seq} was never sent, or is there twice"
            elif (sent.seq, sent.sender, sent.content) != (entry.seq, entry.body["sender"], entry.body["content"]):
                yield f"AcceptedIsThere: {dump.name}: {sent} stands as {entry}"
            seen.add(name)
    for lost in known.values():
        yield f"AcceptedIsThere: {lost.thread_id!a}: {lost.message_id} was accepted at {lost.seq} and is lost"


def _sent_in_order(accepted: Sequence[Accepted]) -> Iterator[str]:
    """Of one sender's messages, each sent when the one before was accepted, the later has the greater seq."""
    last: dict[tuple[str, str], Accepted] = {}
    for each in accepted:
        before = last.get((each.thread_id, each.sender))
        if before is not None and before.seq >= each.seq:
            yield f"SentInOrder: {each.thread_id!a}: {each.message_id} at {each.seq} after one at {before.seq}"
        last[each.thread_id, each.sender] = each


def _effects_stand(dumps: Sequence[ThreadDump], effects: Path) -> Iterator[str]:
    """An effect whose result was recorded is not done again, and a guarded store took no smaller token later."""
    records = [json.loads(line) for line in effects.read_text("utf-8").splitlines()] if effects.exists() else []
    recorded = {entry.run_id: entry for dump in dumps for entry in dump.of(Kind.STEP)}
    turns = {run.run_id: run.turn_id for dump in dumps for run in dump.runs}
    step_of = {turns[run_id]: entry for run_id, entry in recorded.items()}
    by_thread = defaultdict(list)
    for record in records:
        step = step_of.get(record["turn"])
        if step is not None and record["token"] > step.token:
            run = record["run"]
            yield f"StepOnce: {record['thread']!a}: run {run} did again what {step.run_id} recorded at {step.seq}"
        if record["taken"]:
            by_thread[record["thread"]].append(record["token"])
    for thread_id, tokens in by_thread.items():
        for first, second in pairwise(tokens):
            if second < first:
                yield f"FencedEffects: {thread_id!a}: an effect with {second} after one with {first}"


def defects(folder: Path) -> list[str]:
    """Return what the processes logged as errors that nobody had foreseen."""
    return [
        f"NoDefect: {log.name}: {text.strip().splitlines()[-1][:300]}"
        for log in sorted(folder.glob("*.log"))
        for text in log.read_text("utf-8", "replace").split("Traceback (most recent call last)")[1:]
    ]


def figures(dumps: Sequence[ThreadDump]) -> dict[str, object]:
    """Return what happened, as numbers."""
    runs = [run for dump in dumps for run in dump.runs]
    messages = [message for dump in dumps for message in dump.messages]
    outcomes = [f"{outcome} {count}" for outcome in Outcome if (count := sum(run.outcome is outcome for run in runs))]
    waits = sorted(_waits_ms(dumps))
    return {
        "messages": len(messages),
        "runs": f"{len(runs)} ({', '.join(outcomes)})",
        "taken over": sum(run.outcome is Outcome.ABANDONED for run in runs),
        "attempts > 1": sum(run.attempt > 1 for run in runs),
        "steered": sum(message.fate is Fate.STEERED for message in messages),
        "parked": sum(message.fate is Fate.PARKED for message in messages),
        "greatest token": max((run.token for run in runs), default=0),
        "waited p50 / p99 / most": " / ".join(f"{_part(waits, part) / 1000:.2f} s" for part in (0.5, 0.99, 1.0)),
    }


def _waits_ms(dumps: Sequence[ThreadDump]) -> Iterator[int]:
    """How long each message waited until a run consumed it."""
    for dump in dumps:
        sent = {entry.seq: entry.created_ms for entry in dump.of(Kind.MESSAGE)}
        for entry in dump.of(Kind.RUN_STARTED, Kind.RUN_ENDED):
            listed = entry.body.get("prompts" if entry.kind is Kind.RUN_STARTED else "used", ())
            assert isinstance(listed, Sequence)
            for seq in listed:
                if (at := sent.pop(seq, None)) is not None:  # type: ignore[arg-type]  # seqs are numbers
                    yield entry.created_ms - at


def _part(values: Sequence[int], part: float) -> int:
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0
