"""A handler as a command: it "translates" messages, bills once for the turn, and takes in what is sent meanwhile.

turnkeeper run --exec "python3 examples/handlers/worker.py"

It needs no turnkeeper to be installed: what it says and hears are lines of JSON.
"""

import json
import sys
from collections.abc import Callable
from typing import Any


def say(kind: str, **line: object) -> None:
    """Say a line; without the flush it would wait in a buffer."""
    print(json.dumps({"type": kind, **line}), flush=True)


def hear() -> dict[str, Any]:
    """Hear the next line. The end of stdin means that nobody listens any more."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the runner is gone")
    heard: dict[str, Any] = json.loads(line)
    return heard


def step(name: str, effect: Callable[[], object]) -> Any:  # noqa: ANN401 - any JSON value
    """Do a side effect once for the turn, whatever attempt this is, and return its result."""
    say("step?", name=name)
    heard = hear()
    if heard["type"] == "step" and heard["state"] == "do":
        say("step", name=name, value=effect())
        heard = hear()
    if heard["type"] == "refused":
        say("fail", reason=heard["reason"])
        sys.exit()
    return heard["value"]


def translate(message: dict[str, Any]) -> str:
    """Stand for work that takes a while."""
    print("translating", message["message_id"], file=sys.stderr)  # is in the run's log too
    translation = str(message["content"])[::-1]
    say("event", event={"message": message["message_id"], "translation": translation})
    return translation


turn = hear()
translations = [translate(message) for message in turn["prompts"]]
bill = step("bill", lambda: {"words": sum(len(text.split()) for text in translations)})

# Look last for what was sent while this worked. What is asked for here counts as used when the turn completes; what is
# sent later starts the next turn.
say("steer?")
translations += [translate(message) for message in hear()["messages"]]
say("answer", answer={"translations": translations, "bill": bill})
