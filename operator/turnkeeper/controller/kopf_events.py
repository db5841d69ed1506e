"""Brings in what happens to Workspaces, by kopf. Its handlers only hand on: no promise rests on them.

kopf keeps the watch and its credentials. What it may lose without a word is found by the controller's own list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from turnkeeper.settings.workspace import GROUP, VERSION
from turnkeeper.settings.workspace_crd import PLURAL

WATCH_SECONDS: Final = 50
"""How long the server keeps a watch, so that one that has gone silent is known to be dead soon after."""

SILENCE_SECONDS: Final = 70
"""When a watch that says nothing is dropped and begun anew."""


async def follow_workspaces(
    namespaces: Sequence[str],
    on_event: Callable[[str | None, dict[str, Any]], None],
    on_started: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Hand on each event of each Workspace until `stop`; in every namespace where none is named.

    on_started: called once kopf has set its own signal handlers, so that they can be set back.
    """
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login)

    async def started(**_: object) -> None:
        on_started()

    async def event(event: Any, **_: object) -> None:  # noqa: ANN401 - kopf's own shape, read below
        on_event(event["type"], dict(event["object"]))

    kopf.on.startup(registry=registry)(started)
    kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(event)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
        stop_flag=stop,
    )


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
    settings.process.ultimate_exiting_timeout = None
    return settings
