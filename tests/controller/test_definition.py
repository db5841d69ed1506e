"""The Workspace's definition: one model, three copies, and a schema that says what the model says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from turnkeeper.settings import Settings
from turnkeeper.settings.models import ChatSettings, EchoSettings, ExecSettings, HttpSettings, PythonSettings
from turnkeeper.settings.workspace import WorkspaceSpec, read_spec
from turnkeeper.settings.workspace_crd import chart_text, crd_text, workspace_crd
from turnkeeper.settings.workspace_handlers import (
    HANDLERS,
    ChatHandler,
    EchoHandler,
    ExecHandler,
    HttpHandler,
    PythonHandler,
)
from turnkeeper.settings.workspace_reference import reference_text

ROOT = Path(__file__).parents[2]
FORBIDDEN = {"$ref", "$defs", "title", "const", "exclusiveMinimum:number", "oneOf", "allOf"}
LEAVES = {"string", "integer", "number", "boolean"}


def schema() -> dict[str, Any]:
    """The definition's whole schema."""
    found: dict[str, Any] = workspace_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part of a schema with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from nodes(node[name], f"{path}[]")


def test_the_copies_are_the_model() -> None:
    """`make crd` was run after the last change: what a user applies is what the controller reads."""
    assert (ROOT / "crds/turnkeeper.dev_workspaces.yaml").read_text("utf-8") == crd_text()
    assert (ROOT / "charts/turnkeeper/templates/workspace-crd.yaml").read_text("utf-8") == chart_text()
    assert (ROOT / "docs/workspace.md").read_text("utf-8") == reference_text()


def test_the_chart_keeps_the_definition() -> None:
    """Uninstalling a chart must not delete every Workspace; the two texts differ in nothing else."""
    header, opening, *lines, closing = chart_text().splitlines()
    assert (header[0], opening, closing) == ("#", "{{- if .Values.crd.install }}", "{{- end }}")
    chart, plain = yaml.safe_load("\n".join(lines)), yaml.safe_load(crd_text())
    assert chart["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert chart == plain == workspace_crd()


@pytest.mark.parametrize(("path", "node"), list(nodes(schema()["properties"]["spec"], "spec")))
def test_each_part_of_the_spec_is_structural_and_bounded(path: str, node: dict[str, Any]) -> None:
    """What has no bound is a way to break the API server; what has no description is read by nobody."""
    assert not FORBIDDEN & node.keys(), path
    if node.get("x-kubernetes-int-or-string"):
        assert node["pattern"], path
        return
    kind = node["type"]
    if kind == "string":
        assert "maxLength" in node or "enum" in node, path
    elif kind in {"integer", "number"}:
        assert {"minimum", "maximum"} <= node.keys(), path
    elif kind == "array":
        assert "maxItems" in node, path
    elif kind == "object":
        assert ("properties" in node) != ("maxProperties" in node), path
    else:
        assert kind in LEAVES, path
    if not path.endswith("[]"):
        assert node.get("description", "").endswith("."), path


def test_each_rule_has_a_plain_message() -> None:
    """A person is told what would do, not which expression failed."""
    told = [rule for _, node in nodes(schema()) for rule in node.get("x-kubernetes-validations", [])]
    assert len(told) >= 15
    assert all(" " in rule["message"] and rule["message"] != rule["rule"] for rule in told)


PAIRS: list[tuple[type[BaseModel], type[BaseModel]]] = [
    (EchoHandler, EchoSettings),
    (PythonHandler, PythonSettings),
    (ExecHandler, ExecSettings),
    (HttpHandler, HttpSettings),
    (ChatHandler, ChatSettings),
]


@pytest.mark.parametrize(("told", "taken"), PAIRS)
def test_each_handler_of_a_workspace_is_one_of_the_runners(told: type[BaseModel], taken: type[BaseModel]) -> None:
    """Same fields, same defaults; secrets alone come by another way."""
    by_other_ways = {"api_key", "api_key_secret_ref"}
    assert told.model_fields.keys() - by_other_ways == taken.model_fields.keys() - by_other_ways
    for name in told.model_fields.keys() - by_other_ways:
        mine, theirs = told.model_fields[name].default, taken.model_fields[name].default
        assert list(mine) == list(theirs) if isinstance(mine, list) else mine == theirs, name


SPECS: list[dict[str, Any]] = [
    {"echo": {}},
    {"echo": {"delaySeconds": 3600}},
    {"python": {"entryPoint": "my_agent.turns:turn", "searchPath": ["/srv/agent"]}},
    {
        "exec": {
            "command": ["sh", "-c", "cat"],
            "environment": {"A": "b c"},
            "directory": "/srv",
            "killGraceSeconds": 600,
        }
    },
    {"http": {"url": "http://agent/turn", "headers": {"X-Key": "a"}, "timeoutSeconds": 86400}},
    {"chat": {"baseUrl": "https://models/v1", "model": "m", "systemPrompt": "Be brief.", "temperature": 2}},
]


@pytest.mark.parametrize("handler", SPECS)
def test_what_a_workspace_may_say_a_runner_takes(handler: dict[str, Any]) -> None:
    """The file that a runner is given passes its own checks, with every handler there is."""
    spec = read_spec({"spec": {"journal": {"sqlite": {}}, "handler": handler, "turn": {"progressSeconds": 5}}})
    settings = Settings(**spec.settings("0f1e"))
    assert (settings.workspace, settings.handler.kind, settings.turn.progress_seconds) == ("0f1e", spec.handler.kind, 5)
    assert {next(iter(each)) for each in SPECS} == set(HANDLERS)


@pytest.mark.parametrize(
    "bounds",
    [
        {"claimTTLSeconds": 3, "recover": {"intervalSeconds": 1}, "turn": {"timeoutSeconds": 1, "maxAttempts": 1}},
        {"claimTTLSeconds": 600, "recover": {"intervalSeconds": 3600}, "turn": {"timeoutSeconds": 604800}},
        {"runner": {"maxTurns": 1, "drainSeconds": 0}},
        {"runner": {"maxTurns": 10000, "drainSeconds": 3600}, "turn": {"maxAttempts": 100, "progressSeconds": 604800}},
    ],
)
def test_a_runner_takes_every_number_within_the_bounds(bounds: dict[str, Any]) -> None:
    """The API server's bounds are no wider than the runner's: what is accepted starts."""
    spec = WorkspaceSpec.model_validate({"journal": {"sqlite": {}}, "handler": {"echo": {}}, **bounds})
    assert Settings(**spec.settings("0f1e")).claim_ttl_seconds == spec.claim_ttl_seconds
