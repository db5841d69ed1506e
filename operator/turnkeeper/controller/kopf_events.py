"""Brings in what happens to Workspaces, by kopf. Its handlers only hand on: no promise rests on them.

kopf keeps the watch and its credentials, in a thread and on a loop of its own: it would take the process's signals for
itself, and takes seconds to end. What it may lose without a word is found by the controller's own list.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from turnkeeper.errors import TurnkeeperError
from turnkeeper.settings.workspace import GROUP, VERSION
from turnkeeper.settings.workspace_crd import PLURAL

THREAD: Final = "turnkeeper-kopf"

WATCH_SECONDS: Final = 50
"""How long the server keeps a watch, so that one that has gone silent is known to be dead soon after."""

SILENCE_SECONDS: Final = 70
"""When a watch that says nothing is dropped and begun anew."""

IDLE_SECONDS: Final = 0.5
"""How long kopf keeps a task for an object about which nothing comes. There is nothing in it worth keeping."""

CLOSE_SECONDS: Final = 0.25
"""What kopf's last connections take to close once it has ended: it closes them and waits for none."""

OnEvent = Callable[[str | None, dict[str, Any]], None]


async def follow_workspaces(namespaces: Sequence[str], on_event: OnEvent) -> None:
    """Hand on each event of each Workspace, on this loop, until cancelled; in every namespace where none is named.

    Raises TurnkeeperError where kopf ends by itself.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stop = threading.Event()

    def hand_on(kind: str | None, workspace: dict[str, Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(on_event, kind, workspace)

    def end(why: str) -> None:
        if not ended.done():
            ended.set_exception(TurnkeeperError(f"kopf ended: {why}"))

    def follow() -> None:
        why = "without a word"
        try:
            asyncio.run(_operate(namespaces, hand_on, stop))
        except Exception as error:  # noqa: BLE001 - whatever it is, the controller must know that kopf is gone
            why = f"{type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, why)

    threading.Thread(target=follow, name=THREAD, daemon=True).start()
    try:
        await ended
    finally:
        stop.set()


async def _operate(namespaces: Sequence[str], on_event: OnEvent, stop: threading.Event) -> None:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)

    async def event(event: Any, **_: object) -> None:  # noqa: ANN401 - kopf's own shape, read below
        on_event(event["type"], dict(event["object"]))

    kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(event)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)  # it warns that it gets no signals
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        stop_flag=stop,
    )
    await asyncio.sleep(CLOSE_SECONDS)


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf's own arguments, handed on
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the controller posts its own Events
    settings.scanning.disabled = True  # needs no right to list definitions and namespaces
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = SILENCE_SECONDS
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.queueing.idle_timeout = IDLE_SECONDS
    settings.queueing.exit_timeout = IDLE_SECONDS
    settings.process.ultimate_exiting_timeout = None
    return settings
