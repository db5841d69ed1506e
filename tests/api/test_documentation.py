"""The OpenAPI document and the page made from it: every call, every error, each with an example that is right."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from tests.api.served import path_of, sent_and_done
from turnkeeper.api import asked, told, told_service
from turnkeeper.api.problems import MEDIA_TYPE

CALLS = {
    "POST /v1/threads/{thread}/messages": {"200", "202", "409", "413", "415", "422", "503"},
    "GET /v1/threads/{thread}/messages/{message_id}": {"200", "404", "422", "503"},
    "GET /v1/threads": {"200", "422", "503"},
    "GET /v1/threads/{thread}": {"200", "404", "422", "503"},
    "GET /v1/threads/{thread}/log": {"200", "404", "422", "503"},
    "GET /v1/threads/{thread}/events": {"200", "204", "400", "404", "422", "503"},
    "POST /v1/threads/{thread}/answers": {"202", "404", "409", "413", "415", "422", "503"},
    "GET /v1/runs/{run}": {"200", "404", "422", "503"},
    "POST /v1/runs/{run}/stop": {"202", "404", "409", "422", "503"},
    "POST /v1/threads/{thread}/parked/{seq}": {"202", "404", "409", "422", "503"},
    "POST /v1/recover": {"200", "422", "503"},
    "GET /v1/stats": {"200", "503"},
    "GET /livez": {"200", "503"},
    "GET /readyz": {"200", "503"},
    "GET /metrics": {"200"},
}
MODELS = {
    name: model
    for module in (asked, told, told_service)
    for name, model in vars(module).items()
    if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
}


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    """The document as it is served."""
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def calls_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each call by its method and path."""
    return {f"{verb.upper()} {path}": call for path, verbs in document["paths"].items() for verb, call in verbs.items()}


def test_the_calls_are_those_of_the_design_and_no_others(document: dict[str, Any]) -> None:
    """With the answers that each may get."""
    calls = calls_of(document)
    assert calls.keys() == CALLS.keys()
    for name, statuses in CALLS.items():
        assert statuses <= calls[name]["responses"].keys(), name


def test_each_call_is_described_and_each_answer_has_an_example(document: dict[str, Any]) -> None:
    """For a person, and for a tool that makes a client of it."""
    schemas = document["components"]["schemas"]
    for name, call in calls_of(document).items():
        assert call["summary"], name
        assert len(call["description"]) > 30, name
        for status, response in call["responses"].items():
            assert response["description"], (name, status)
            for kind, content in response.get("content", {}).items():
                reference = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                has_example = "example" in content or "examples" in content or "examples" in schemas.get(reference, {})
                assert has_example, (name, status, kind)
        if "requestBody" in call and "StopBody" not in str(call["requestBody"]):
            assert call["requestBody"]["content"]["application/json"]["examples"], name


def test_every_example_of_an_error_is_a_problem_of_its_status(document: dict[str, Any]) -> None:
    """They are all of one form."""
    count = 0
    for call in calls_of(document).values():
        for status, response in call["responses"].items():
            for example in response.get("content", {}).get(MEDIA_TYPE, {}).get("examples", {}).values():
                problem = told.ProblemBody.model_validate(example["value"])
                assert str(problem.status) == status
                count += 1
    assert count > 100


def test_every_example_of_a_body_fits_its_model(document: dict[str, Any]) -> None:
    """An example that is wrong is worse than none."""
    count = 0
    for name, schema in document["components"]["schemas"].items():
        for example in schema.get("examples", []):
            MODELS[name].model_validate(example)
            count += 1
    assert count > 15


def test_what_is_answered_fits_what_is_documented(client: httpx.Client, thread: str) -> None:
    """Field by field, nothing missing and nothing more."""
    log = sent_and_done(client, thread, "x")
    message_id = log[0]["body"]["message_id"]
    run_id = log[1]["run_id"]
    answers: list[tuple[type[BaseModel], str]] = [
        (told.ThreadDetailTold, path_of(thread)),
        (told.ThreadsTold, "/v1/threads?limit=1"),
        (told.LogTold, path_of(thread, "/log?limit=2")),
        (told.ReceiptTold, path_of(thread, f"/messages/{message_id}")),
        (told_service.RunTold, f"/v1/runs/{run_id}"),
        (told_service.StatsTold, "/v1/stats"),
        (told_service.HealthTold, "/readyz"),
        (told_service.HealthTold, "/livez"),
    ]
    for model, path in answers:
        model.model_validate(client.get(path).json())


def test_each_reference_in_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    """Or no tool could read it."""
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert names
    assert names <= document["components"]["schemas"].keys()


def test_the_page_shows_every_call_and_loads_nothing_from_elsewhere(client: httpx.Client) -> None:
    """It is read in clusters without a way out; and the API's own texts can't run in it."""
    response = client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    for name in CALLS:
        assert f"<code>{name}</code>" in response.text
    assert not re.findall(r"<script|<link|<img|src=|@import|url\(", response.text)


def test_the_handbook_names_every_call() -> None:
    """docs/api.md is written by hand, and must not fall behind."""
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    for name in CALLS:
        method, path = name.split()
        assert path in text, name
        assert method in text
