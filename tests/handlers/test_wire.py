"""A turn as a program is told it."""

import json

from tests.handlers.recording_turn import RecordingTurn, ended, sent
from turnkeeper.adapters.handlers.wire import HISTORY_BYTES_MAX, earlier, turn_document
from turnkeeper.core.values import Question
from turnkeeper.core.words import Ask, Kind, Resolution

QUESTION = Question(
    question_id="q", turn_id="turn-1", ask=Ask.APPROVAL, text="Pay?", detail=9, resolution=Resolution.APPROVED
)


async def test_a_program_is_told_everything_about_its_turn() -> None:
    """Prompts, resolved questions, history, and what fences side effects elsewhere."""
    turn = RecordingTurn("b", questions=(QUESTION,), first_seq=4)
    history = [sent(1, "a"), ended(3, "completed", "A")]
    assert json.loads(json.dumps(turn_document(turn, history))) == {
        "type": "turn",
        "workspace": "tests",
        "thread": "thread/ä",
        "run": "run-1",
        "turn": "turn-1",
        "attempt": 1,
        "token": 7,
        "prompts": [{"message_id": "m4", "seq": 4, "sender": "ann", "content": "b"}],
        "questions": [
            {
                "question_id": "q",
                "ask": "approval",
                "text": "Pay?",
                "detail": 9,
                "resolution": "approved",
                "answer": None,
            }
        ],
        "history": [
            {
                "seq": 1,
                "kind": "message",
                "created_ms": 1_001,
                "run_id": "",
                "body": {"message_id": "m1", "sender": "ann", "mode": "steer", "content": "a"},
            },
            {
                "seq": 3,
                "kind": "run_ended",
                "created_ms": 1_003,
                "run_id": "run-3",
                "body": {"outcome": "completed", "reason": "", "used": [], "answer": "A"},
            },
        ],
    }


async def test_history_leaves_out_what_the_turn_is_about_and_what_still_waits() -> None:
    """A model that is shown its prompt twice, or a message of a later turn, answers the wrong thing."""
    log = [sent(1, "a"), sent(2, "b"), sent(3, "waits"), ended(4, "completed", "A"), sent(5, "waits", Kind.NOTE)]
    turn = RecordingTurn("b", history=log, first_seq=2)
    assert [entry.seq for entry in await earlier(turn, 50)] == [1, 4]
    assert turn.history_limits == [50]


async def test_a_turn_that_goes_on_without_a_message_has_all_of_its_history() -> None:
    """Its own question came from there."""
    log = [sent(1, "a"), ended(3, "paused")]
    assert await earlier(RecordingTurn(history=log), 50) == log


async def test_no_history_is_read_where_none_is_wanted() -> None:
    """Zero turns it off."""
    turn = RecordingTurn("b", history=[sent(1, "a")], first_seq=2)
    assert list(await earlier(turn, 0)) == []
    assert turn.history_limits == []


async def test_history_is_bounded_and_its_newest_part_is_kept() -> None:
    """Two hundred entries of the largest size would be two hundred MiB on one line."""
    large = "x" * (HISTORY_BYTES_MAX // 3)
    document = turn_document(RecordingTurn("b"), [sent(seq, large) for seq in range(1, 6)])
    assert [entry["seq"] for entry in json.loads(json.dumps(document["history"]))] == [4, 5]
