"""Load from people who don't stop: one sends, one follows a thread's stream, while something happens to the runners."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

from tests.e2e.workspaces import CONTEXT, READY_SECONDS, Workspace

FOLLOWED = "followed"
"""The thread whose stream is read; the others get one message each."""

PAUSE_SECONDS = 0.3
"""Between two messages. Arbitrary: some for each second, and no strain for a small machine."""


@contextmanager
def traffic(workspace: Workspace) -> Iterator[dict[str, str]]:
    """Send messages until the end of the while; yields their ids by thread, filled as they are accepted.

    A stream of one of the threads is read all the time, over as many connections as it takes; at the end, what was read
    is the thread's log (StreamIsLog).
    """
    sent: dict[str, str] = {}
    over = threading.Event()
    seen: list[int] = []
    with ThreadPoolExecutor(2) as people:
        tasks = [people.submit(_send, workspace, sent, over), people.submit(_follow, workspace, seen, over)]
        try:
            yield sent
        finally:
            over.set()
            for task in tasks:
                task.result()
    assert sent
    log = [entry["seq"] for entry in workspace.log(FOLLOWED)]
    assert seen == log[: len(seen)]
    assert seen


def _send(workspace: Workspace, sent: dict[str, str], over: threading.Event) -> None:
    while not over.wait(PAUSE_SECONDS):
        thread = f"load{len(sent)}" if len(sent) % 4 else FOLLOWED
        sent[thread] = workspace.send(thread, "work")


def _follow(workspace: Workspace, seen: list[int], over: threading.Event) -> None:
    """Read the stream, each time from where it broke off; a thread that nobody has asked yet has none."""
    while not over.is_set():
        url = f"{workspace.place.door(workspace.name).url()}/v1/threads/{FOLLOWED}/events"
        headers = {"Authorization": f"Bearer {workspace.token()}"}
        after = {"after": str(seen[-1] if seen else 0), "follow": "true"}
        try:
            with httpx.stream(
                "GET", url, params=after, headers=headers, timeout=READY_SECONDS, verify=CONTEXT
            ) as answer:
                for line in answer.iter_lines():
                    if line.startswith("id:"):
                        seen.append(int(json.loads(line.removeprefix("id:"))))
                    if over.is_set():
                        return
        except httpx.TransportError:
            pass
        over.wait(PAUSE_SECONDS)
