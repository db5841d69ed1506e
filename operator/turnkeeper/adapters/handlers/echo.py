"""Answers with what was sent: a handler to see turnkeeper work with nothing else installed."""

from __future__ import annotations

import asyncio

from turnkeeper.core.values import Json
from turnkeeper.ports import Turn


class EchoHandler:
    """Emits each message's content as an event and answers with it; with a list of them where there were several.

    delay_seconds: how long a turn takes, so that there is time to steer, stop or kill it.
    """

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self._delay_seconds = delay_seconds

    async def turn(self, turn: Turn) -> Json:
        """Answer with the prompts, and with the steering that arrived until the answer."""
        contents: list[Json] = []
        for message in turn.prompts:
            contents.append(message.content)
            await turn.emit(message.content)
        if self._delay_seconds > 0:
            await asyncio.sleep(self._delay_seconds)
        # Each write of an event takes time in which more may arrive: look until nothing does.
        while steering := turn.steering():
            for message in steering:
                contents.append(message.content)
                await turn.emit(message.content)
        return contents[0] if len(contents) == 1 else contents

    async def aclose(self) -> None:
        """Nothing is held."""
