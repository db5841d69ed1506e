"""What a turn does in the soak: a command that takes 50 to 500 ms, writes events, reads steering, and has one effect.

It records its effect twice over: in a list of all that happened, and in a store outside that takes it only under a
token that is not below the greatest it has seen, as a user's own database would. Needs nothing but Python.
"""

import fcntl
import hashlib
import json
import os
import random
import select
import sys
from pathlib import Path
from typing import Any

SHORTEST_SECONDS, LONGEST_SECONDS = 0.05, 0.5
PARTS = 4
PARTS_PER_SECOND = 10
"""Events of a turn, so that a write is often on its way when a runner is frozen."""

_unread = b""


def hear() -> dict[str, Any]:
    """Read a line; the end of the input ends this command."""
    global _unread  # noqa: PLW0603 - a script of one run
    while b"\n" not in _unread:
        part = os.read(0, 65536)
        if not part:
            sys.exit(1)
        _unread += part
    line, _, _unread = _unread.partition(b"\n")
    heard: dict[str, Any] = json.loads(line)
    return heard


def say(**line: object) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def hear_of(kind: str) -> dict[str, Any]:
    """Read on to a line of this kind."""
    while True:
        line = hear()
        if line["type"] == kind:
            return line


def take_time(seconds: float) -> None:
    """Wait."""
    select.select([], [], [], seconds)


def have_effect(turn: dict[str, Any], folder: Path) -> str:
    """Do what must not be done by a runner that lost the thread; return whether the store took it."""
    name = hashlib.sha256(turn["thread"].encode()).hexdigest()[:16]
    with (folder / f"store-{name}").open("a+") as store:
        fcntl.flock(store, fcntl.LOCK_EX)
        store.seek(0)
        greatest = max([int(line) for line in store], default=0)
        taken = turn["token"] >= greatest
        if taken:
            store.write(f"{turn['token']}\n")
            store.flush()
    record = {name: turn[name] for name in ("thread", "turn", "run", "token", "attempt")} | {"taken": taken}
    with (folder / "effects").open("a") as effects:
        effects.write(json.dumps(record) + "\n")
    return "taken" if taken else "refused"


def main() -> None:
    """Take one turn."""
    folder = Path(os.environ["SOAK_EFFECTS"])
    turn = hear_of("turn")
    seconds = random.Random(turn["run"]).uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
    # Held for a fault, which the first attempt has met; the second may have to last until that one is back.
    name = {1: "hold_seconds", 2: "again_seconds"}.get(turn["attempt"], "")
    holds = [prompt["content"].get(name, 0) for prompt in turn["prompts"] if isinstance(prompt["content"], dict)]
    say(type="step?", name="effect")
    if hear_of("step")["state"] == "do":
        say(type="step", name="effect", value=have_effect(turn, folder))
        hear_of("step")
    heard = [prompt["seq"] for prompt in turn["prompts"]]
    parts = PARTS + int(PARTS_PER_SECOND * sum(holds))
    for part in range(parts):
        say(type="event", event={"part": part})
        take_time((seconds + sum(holds)) / parts)
        if part == parts // 2:
            say(type="steer?")
            heard += [message["seq"] for message in hear_of("steer")["messages"]]
    say(type="answer", answer={"heard": heard})


if __name__ == "__main__":
    main()
