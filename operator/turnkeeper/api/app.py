"""Puts the API together: routes, errors, the guard before them, and the OpenAPI document about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from turnkeeper import __version__
from turnkeeper.adapters.prometheus import PrometheusObserver
from turnkeeper.api import problems, routes_events, routes_service, routes_threads
from turnkeeper.api.asked import AnswerBody, ParkedBody, RecoverBody, SendBody, StopBody
from turnkeeper.api.doors import Doors
from turnkeeper.api.guard import OPEN_PATHS, Guard
from turnkeeper.api.last_resort import LastResort
from turnkeeper.api.told import ProblemBody
from turnkeeper.runner.service import Runner

DESCRIPTION = """Threads of messages, each worked on by one worker at a time: what was asked is taken, whoever dies.

Ids are any Unicode text of 1 to 512 bytes without control characters, kept byte for byte; in a path they are
percent-encoded, '/' as %2F.

Every error is a problem (RFC 9457, application/problem+json): `type` names its kind, `detail` says what would do, and
`thread`, `message_id` and `stands` say what it was about, as far as that was understood.

With tokens configured, every call but /livez, /readyz, /docs and /openapi.json needs one (Authorization: Bearer).
Without, the runner listens and answers on loopback names only.
"""


class Api(FastAPI):
    """The app; its OpenAPI document also holds the bodies that routes read by themselves."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document; made once."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=self.routes
            )
            models = (SendBody, AnswerBody, ParkedBody, StopBody, RecoverBody, ProblemBody)
            _, made = models_json_schema(
                [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
            )
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas |= made["$defs"]
            schemas["Problem"] = schemas.pop(ProblemBody.__name__)
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, calls in document["paths"].items():
                for call in calls.values():
                    call["security"] = [] if path in OPEN_PATHS else [{"token": []}]
            self.openapi_schema = document
        return self.openapi_schema


def create_app(runner: Runner, *, tokens: Sequence[str] = (), metrics: PrometheusObserver | None = None) -> Api:
    """Return the ASGI app that serves a runner.

    Its owner calls `close_streams(app)` before it stops the server: open streams never end by themselves.
    """
    app = Api(
        title="turnkeeper",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.doors = Doors(runner, metrics or PrometheusObserver())
    problems.install(app)
    for router in (routes_events.router, routes_threads.router, routes_service.router):
        app.include_router(router)
    app.add_middleware(LastResort)
    app.add_middleware(Guard, tokens=tokens)  # the last that is added is the first that is asked
    return app


def close_streams(app: FastAPI) -> None:
    """End the app's open streams at once; their clients resume from where they were."""
    doors: Doors = app.state.doors
    doors.streams.close()
