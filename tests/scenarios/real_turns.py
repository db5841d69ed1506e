"""What turns do in the scenarios with real processes: told by the first prompt, an object with `do`."""

import asyncio
import itertools
import os
import threading
import time
from pathlib import Path

from turnkeeper.core.values import Json
from turnkeeper.ports import Turn

CURE = "SCENARIO_CURE"
"""Names a file: once it is there, what killed its runner does so no more."""

TOO_LARGE = 20 * 1_048_576


async def turn(turn: Turn) -> Json:
    """Do as the prompt says; a plain prompt is answered."""
    content = turn.prompts[0].content
    told: dict[str, Json] = dict(content) if isinstance(content, dict) else {}
    seconds = told.get("seconds", 0.0)
    assert isinstance(seconds, int | float)
    match told.get("do"):
        case "exit" if not is_cured():
            os._exit(137)
        case "too large":
            return "x" * TOO_LARGE
        case "hold the loop":
            threading.Event().wait(seconds)  # as any call that blocks, inside an async function
        case "hold the lock" if turn.attempt == 1:
            hold_the_interpreter(seconds)
        case "write":
            return await write_for(turn, seconds)
    await turn.emit("after it")
    return f"{told.get('do', content)} in attempt {turn.attempt}"


def is_cured() -> bool:
    """Whether what kills a runner has been mended."""
    return Path(os.environ[CURE]).exists()


async def write_for(turn: Turn, seconds: float) -> Json:
    """Write an event after the other for so long; a later attempt is short."""
    until = time.monotonic() + (seconds if turn.attempt == 1 else 0.3)
    for number in itertools.count():
        await turn.emit(number)
        await asyncio.to_thread(threading.Event().wait, 0.02)
        if time.monotonic() >= until:
            return number
    return None


def hold_the_interpreter(seconds: float) -> None:
    """Let no other thread of this process run: one call into C, sized by a smaller one."""
    began, size = time.monotonic(), 1_000_000
    sum(range(size))
    rate = size / (time.monotonic() - began)
    sum(range(int(rate * seconds)))
