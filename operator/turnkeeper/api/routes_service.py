"""Calls about runs, the workspace and the process."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from turnkeeper.adapters.prometheus import CONTENT_TYPE
from turnkeeper.api.asked import RecoverBody, StopBody
from turnkeeper.api.body import documented_body, read_model
from turnkeeper.api.docs_page import render
from turnkeeper.api.doors import Behind, wall_ms
from turnkeeper.api.names import RunId
from turnkeeper.api.problems import CLOSED, INVALID_ID, INVALID_INPUT, NOT_FOUND, STANDS, UNAVAILABLE, documented
from turnkeeper.api.told import answer
from turnkeeper.api.told_service import HealthTold, RecoveredTold, RunTold, StatsTold, StoppedTold
from turnkeeper.core.names import dump_json
from turnkeeper.errors import NotFoundError

router = APIRouter()


@router.get(
    "/v1/runs/{run:segment}",
    tags=["runs"],
    summary="Read a run",
    response_model=RunTold,
    responses=documented(NOT_FOUND, INVALID_ID, UNAVAILABLE),
)
async def read_run(run: RunId, doors: Behind) -> Response:
    """One execution of a turn, and how it ended."""
    found = await doors.runner.journal.run(run)
    if found is None:
        raise NotFoundError(f"run {run!a} does not exist")
    return answer(RunTold.of(*found))


@router.post(
    "/v1/runs/{run:segment}/stop",
    tags=["runs"],
    summary="Stop a run's turn",
    status_code=202,
    response_model=StoppedTold,
    responses=documented(NOT_FOUND, STANDS, INVALID_ID, CLOSED, UNAVAILABLE, is_post=True),
    openapi_extra=documented_body(StopBody, required=False),
)
async def stop(request: Request, run: RunId, doors: Behind) -> Response:
    """Stops the turn, whatever attempt or pause it is in by now. 409 with the outcome if the turn had ended before.

    A stop that was accepted stands: the run ends `stopped` whatever its handler returns; what was queued behind runs.
    """
    await read_model(request, StopBody, may_be_empty=True)
    stopped = await doors.runner.stop(run)
    told = StoppedTold(thread=stopped.thread_id, run_id=stopped.run_id, is_running=stopped.is_running)
    return answer(told, 202)


@router.post(
    "/v1/recover",
    tags=["workspace"],
    summary="Take what is owed",
    response_model=RecoveredTold,
    responses=documented(INVALID_INPUT, CLOSED, UNAVAILABLE, is_post=True),
    openapi_extra=documented_body(RecoverBody, required=False),
)
async def recover(request: Request, doors: Behind) -> Response:
    """Takes every thread that is owed a turn, oldest first. Idempotent; runners do it by themselves on a schedule."""
    body = await read_model(request, RecoverBody, may_be_empty=True)
    return answer(RecoveredTold.of(await doors.runner.recover(body.limit)))


@router.get(
    "/v1/stats",
    tags=["workspace"],
    summary="Count the threads",
    response_model=StatsTold,
    responses=documented(UNAVAILABLE),
)
async def stats(doors: Behind) -> Response:
    """How many threads are owed, running, paused and parked, and how long the oldest has waited."""
    found = await doors.runner.journal.stats()
    since = found.oldest_owed_ms
    told = StatsTold(
        workspace=doors.runner.workspace,
        owed=found.owed,
        running=found.running,
        paused=found.paused,
        parked=found.parked,
        oldest_owed_seconds=None if since is None else max(0.0, (wall_ms() - since) / 1000),
    )
    return answer(told)


_NOT_OK: dict[int | str, dict[str, Any]] = {503: {"model": HealthTold, "description": "It is not; `reasons` says why."}}


@router.get("/readyz", tags=["process"], summary="Is the runner ready?", response_model=HealthTold, responses=_NOT_OK)
async def readyz(doors: Behind) -> Response:
    """Whether this runner takes messages and turns. Needs no token."""
    found = doors.runner.readiness()
    return answer(HealthTold(ok=found.is_ready, reasons=list(found.reasons)), 200 if found.is_ready else 503)


@router.get("/livez", tags=["process"], summary="Is the runner alive?", response_model=HealthTold, responses=_NOT_OK)
async def livez(doors: Behind) -> Response:
    """Whether this process should be left running. Needs no token."""
    found = doors.runner.liveness()
    return answer(HealthTold(ok=found.is_ready, reasons=list(found.reasons)), 200 if found.is_ready else 503)


@router.get("/metrics", tags=["process"], summary="Read the metrics", response_class=Response, responses=documented())
async def metrics(doors: Behind) -> Response:
    """Prometheus' text format. Where the journal can't be reached its gauges are left out."""
    return Response(await doors.render_metrics(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The OpenAPI document. Needs no token."""
    return Response(dump_json(request.app.openapi()), media_type="application/json")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """The API for people: one page, nothing loaded from elsewhere. Needs no token."""
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return HTMLResponse(render(request.app.openapi()), headers=policy)
