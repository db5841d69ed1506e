"""Between the core's values and rows of the tables: one pair of functions for each, and no decision in any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from turnkeeper.core.names import dump_json
from turnkeeper.core.values import (
    Claim,
    Entry,
    Json,
    Message,
    OpenRun,
    Parked,
    Question,
    Run,
    Step,
    Thread,
    TurnState,
)
from turnkeeper.core.words import Ask, Fate, Kind, Mode, Outcome, Resolution

Values = dict[str, Any]


def thread_from(row: Row[Any]) -> Thread:
    """Return the thread that a row of `threads` holds."""
    run = OpenRun(
        run_id=row.run_id,
        attempt=row.run_attempt,
        events=row.run_events,
        stop_asked=bool(row.run_stop_asked),
        apart=bool(row.run_apart),
    )
    turn = TurnState(
        turn_id=row.turn_id,
        leg=row.turn_leg,
        attempts=row.turn_attempts,
        charged=row.turn_charged,
        crowd_deaths=row.turn_crowd_deaths,
    )
    return Thread(
        thread_id=row.thread_id,
        last_seq=row.last_seq,
        asked=row.asked,
        taken=row.taken,
        token=row.token,
        session=row.session,
        run=run if row.run_id else None,
        turn=turn if row.turn_id else None,
        open_questions=row.open_questions,
        parked=row.parked,
        owed_since_ms=row.owed_since_ms,
    )


_NO_RUN = OpenRun(run_id="", attempt=0)
_NO_TURN = TurnState(turn_id="")


def thread_values(thread: Thread) -> Values:
    """Return the columns that a decision may change."""
    run, turn = thread.run or _NO_RUN, thread.turn or _NO_TURN
    return {
        "last_seq": thread.last_seq,
        "asked": thread.asked,
        "taken": thread.taken,
        "token": thread.token,
        "session": thread.session,
        "run_id": run.run_id,
        "run_attempt": run.attempt,
        "run_events": run.events,
        "run_stop_asked": run.stop_asked,
        "run_apart": run.apart,
        "turn_id": turn.turn_id,
        "turn_leg": turn.leg,
        "turn_attempts": turn.attempts,
        "turn_charged": turn.charged,
        "turn_crowd_deaths": turn.crowd_deaths,
        "open_questions": thread.open_questions,
        "parked": thread.parked,
        "state": thread.state.value,
        "owed_since_ms": thread.owed_since_ms,
    }


def entry_from(row: Row[Any]) -> Entry:
    """Return the entry that a row of `entries` holds."""
    return Entry(
        seq=row.seq,
        kind=Kind(row.kind),
        created_ms=row.created_ms,
        run_id=row.run_id,
        token=row.token,
        body=json.loads(row.body),
    )


def entry_values(key: int, entry: Entry) -> Values:
    """Return the columns of an entry."""
    return {
        "thread_key": key,
        "seq": entry.seq,
        "kind": entry.kind.value,
        "created_ms": entry.created_ms,
        "run_id": entry.run_id,
        "token": entry.token,
        "body": dump_json(entry.body),
    }


def message_from(row: Row[Any]) -> Message:
    """Return the message of a row of `messages`, with its content where the row brings its entry's `body`."""
    body: Mapping[str, Json] = json.loads(row.body) if "body" in row._fields else {}
    return Message(
        message_id=row.message_id,
        seq=row.seq,
        sender=row.sender,
        mode=Mode(row.mode),
        digest=row.digest,
        created_ms=row.created_ms,
        content=body.get("content"),
        fate=Fate(row.fate),
        turn_id=row.turn_id,
        leg=row.leg,
        run_id=row.run_id,
        reason=row.reason,
    )


def message_values(key: int, message: Message) -> Values:
    """Return the columns of a message; its content lies in its entry."""
    return {
        "thread_key": key,
        "message_id": message.message_id,
        "seq": message.seq,
        "sender": message.sender,
        "mode": message.mode.value,
        "digest": message.digest,
        "created_ms": message.created_ms,
        "fate": message.fate.value,
        "turn_id": message.turn_id,
        "leg": message.leg,
        "run_id": message.run_id,
        "reason": message.reason,
    }


def run_from(row: Row[Any]) -> Run:
    """Return the run that a row of `runs` holds."""
    return Run(
        run_id=row.run_id,
        turn_id=row.turn_id,
        attempt=row.attempt,
        token=row.token,
        session=row.session,
        started_seq=row.started_seq,
        started_ms=row.started_ms,
        outcome=Outcome(row.outcome) if row.outcome else None,
        ended_seq=row.ended_seq,
        ended_ms=row.ended_ms,
        reason=row.reason,
    )


def run_values(key: int, run: Run) -> Values:
    """Return the columns of a run."""
    return {
        "run_id": run.run_id,
        "thread_key": key,
        "turn_id": run.turn_id,
        "attempt": run.attempt,
        "token": run.token,
        "session": run.session,
        "started_seq": run.started_seq,
        "started_ms": run.started_ms,
        "outcome": run.outcome.value if run.outcome else None,
        "ended_seq": run.ended_seq,
        "ended_ms": run.ended_ms,
        "reason": run.reason,
    }


def question_from(row: Row[Any]) -> Question:
    """Return the question that a row of `questions` holds."""
    return Question(
        question_id=row.question_id,
        turn_id=row.turn_id,
        ask=Ask(row.ask),
        text=json.loads(row.text),
        detail=json.loads(row.detail),
        expires_ms=row.expires_ms,
        resolution=Resolution(row.resolution),
        answer=json.loads(row.answer),
    )


def question_values(key: int, question: Question) -> Values:
    """Return the columns of a question; its text is JSON too, since a person's text may hold a NUL."""
    return {
        "thread_key": key,
        "question_id": question.question_id,
        "turn_id": question.turn_id,
        "ask": question.ask.value,
        "text": dump_json(question.text),
        "detail": dump_json(question.detail),
        "expires_ms": question.expires_ms,
        "resolution": question.resolution.value,
        "answer": dump_json(question.answer),
    }


def parked_from(row: Row[Any]) -> Parked:
    """Return the parked turn that a row of `parked` holds."""
    return Parked(
        seq=row.seq,
        turn_id=row.turn_id,
        leg=row.leg,
        reason=row.reason,
        resolved=row.resolved,
        ask_seq=row.ask_seq,
    )


def parked_values(key: int, parked: Parked) -> Values:
    """Return the columns of a parked turn."""
    return {
        "thread_key": key,
        "seq": parked.seq,
        "turn_id": parked.turn_id,
        "leg": parked.leg,
        "reason": parked.reason,
        "resolved": parked.resolved,
        "ask_seq": parked.ask_seq,
    }


def step_from(row: Row[Any]) -> Step:
    """Return the step that a row of `steps` holds."""
    return Step(turn_id=row.turn_id, name=row.name, value=json.loads(row.value))


def step_values(key: int, step: Step) -> Values:
    """Return the columns of a step."""
    return {"thread_key": key, "turn_id": step.turn_id, "name": step.name, "value": dump_json(step.value)}


def claim_from(row: Row[Any]) -> Claim:
    """Return the claim that a row of `claims` holds."""
    return Claim(session=row.session, token=row.token, nonce=row.nonce)


def claim_values(workspace: str, thread_id: str, claim: Claim) -> Values:
    """Return the columns of a claim."""
    return {
        "workspace": workspace,
        "thread_id": thread_id,
        "session": claim.session,
        "token": claim.token,
        "nonce": claim.nonce,
    }
