"""How soon a client of one runner sees what a run of another writes, and how soon that run hears of a message.

Two `turnkeeper run` processes on one database. The run is in the first; the stream is read, and steering sent, by way
of the first and by way of the second. All clocks are this machine's. What is written counts from before its
transaction, what is sent from before the request: durability is part of both.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx

from bench.databases import DATABASES, place
from bench.processes import Served, serving

EVENTS = 600
STEERS = 60
STEER_SECONDS = 0.15
HANDLER = ("--python", "bench.ticking:turn")
PATIENCE_SECONDS = 60.0


def run(*, quick: bool) -> dict[str, Any]:
    """Measure both databases, in milliseconds."""
    found = {}
    for database in DATABASES:
        with place(database) as where, serving(where, *HANDLER) as holder, serving(where, *HANDLER) as other:
            sides = {"same": holder, "another": other}
            found[database] = {
                side: measure(f"by-{side}", holder, by, events=EVENTS // 6 if quick else EVENTS)
                for side, by in sides.items()
            }
    return found


def measure(thread_id: str, holder: Served, by: Served, *, events: int) -> dict[str, list[float]]:
    """Run one turn in `holder`, and follow and steer it by way of `by`."""
    with httpx.Client(timeout=PATIENCE_SECONDS) as client:
        holder.send(thread_id, events, client)
        sender = threading.Thread(target=steer, args=(by, thread_id, events))
        sender.start()
        seen, heard = [], []
        for told, now in events_of(by, thread_id, client):
            if "heard" in told:
                heard.append((told["at"] - told["heard"]) * 1000)
            else:
                seen.append((now - told["at"]) * 1000)
            if len(seen) == events:
                break
        sender.join()
    return {"seen_milliseconds": seen, "heard_milliseconds": heard}


def steer(by: Served, thread_id: str, events: int) -> None:
    """Send messages that say when they were sent, while the run lasts."""
    with httpx.Client(timeout=PATIENCE_SECONDS) as client:
        for _ in range(min(STEERS, int(events * 0.02 / STEER_SECONDS) - 2)):
            by.send(thread_id, time.time(), client)
            time.sleep(STEER_SECONDS)


def events_of(by: Served, thread_id: str, client: httpx.Client) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield a run's events as a client sees them, each with the time."""
    with client.stream("GET", f"{by.address}/v1/threads/{thread_id}/events") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                now, entry = time.time(), json.loads(line.removeprefix("data: "))
                if entry.get("kind") == "event":
                    yield entry["body"]["event"], now
