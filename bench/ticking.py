"""A handler that tells the time: when each event was given out, and when each steering message reached it."""

from __future__ import annotations

import asyncio
import time

from turnkeeper.ports import Turn

TICK_SECONDS = 0.02


async def turn(turn: Turn) -> str:
    """Emit as many events as the prompt says, and one for each message that comes meanwhile."""
    hearing = asyncio.create_task(hear(turn))
    try:
        for _ in range(int(str(turn.prompts[0].content))):
            await turn.emit({"at": time.time()})
            await asyncio.sleep(TICK_SECONDS)
    finally:
        hearing.cancel()
    return "done"


async def hear(turn: Turn) -> None:
    """Tell when a message came."""
    while True:
        message = await turn.next_steer()
        await turn.emit({"heard": message.content, "at": time.time()})
