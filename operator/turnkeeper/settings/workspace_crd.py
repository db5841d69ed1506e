"""The Workspace's CustomResourceDefinition, made from its model: a structural schema, its columns and subresources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from turnkeeper.settings.workspace import GROUP, KIND, NAME_RULE, VERSION, WorkspaceSpec
from turnkeeper.settings.workspace_parts import rules
from turnkeeper.settings.workspace_status import WorkspaceStatus

PLURAL: Final = "workspaces"
NAME: Final = f"{PLURAL}.{GROUP}"
HEADER: Final = "# Made by `make crd` from the models in operator/turnkeeper/settings; edit those.\n"

DROPPED: Final = frozenset({"title", "additionalProperties", "$defs", "const"})
"""What pydantic says and a structural schema has no place for; maps keep their additionalProperties."""


def _condition(kind: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")]'


COLUMNS: Final = (
    ("Ready", "string", f"{_condition('Ready')}.status", "Whether runners take turns.", 0),
    ("Runners", "integer", ".status.readyReplicas", "Runners that are ready.", 0),
    ("Owed", "integer", ".status.threads.owed", "Threads that have a turn coming.", 0),
    ("Running", "integer", ".status.threads.running", "Threads of which a turn runs.", 0),
    ("Oldest", "integer", ".status.oldestOwedSeconds", "Seconds that the oldest of them has waited.", 0),
    ("Recovered", "string", f"{_condition('Recovered')}.status", "Whether the last sweep left nothing behind.", 0),
    ("Age", "date", ".metadata.creationTimestamp", "Since when it exists.", 0),
    ("Parked", "integer", ".status.threads.parked", "Threads with a turn set aside.", 1),
    ("Reason", "string", f"{_condition('Ready')}.message", "Why it is or is not ready.", 1),
)


def workspace_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition."""
    status = _structural(WorkspaceStatus.model_json_schema(by_alias=True))
    schema = {
        "type": "object",
        "description": "A set of threads with one journal and one set of runners.",
        "required": ["spec"],
        **rules(NAME_RULE),
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}"},
            "kind": {"type": "string", "description": KIND},
            "metadata": {"type": "object"},
            "spec": _structural(WorkspaceSpec.model_json_schema(by_alias=True)),
            "status": status,
        },
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.runner.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": told, "priority": priority}
            for name, kind, path, told, priority in COLUMNS
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["tkws"],
                "categories": ["turnkeeper"],
            },
            "versions": [version],
        },
    }


def crd_text() -> str:
    """Return the definition as the YAML of the file in `crds/`."""
    return HEADER + _yaml(workspace_crd())


def chart_text() -> str:
    """Return the definition as the chart's template: upgraded with the chart, kept when it is uninstalled."""
    definition = workspace_crd()
    definition["metadata"] = {"name": NAME, "annotations": {"helm.sh/resource-policy": "keep"}}
    text = _yaml(definition).replace("{{", '{{ "{{" }}')  # none today; a template would read one as its own
    return f"{HEADER}{{{{- if .Values.crd.install }}}}\n{text}{{{{- end }}}}\n"


class _Dumper(yaml.SafeDumper):
    """Repeats what is the same instead of naming it once: an alias is hard to read, and kubectl diff shows none."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _yaml(value: object) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def _structural(schema: dict[str, Any]) -> dict[str, Any]:
    return _inlined(schema, schema.get("$defs", {}))


def _inlined(node: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without references, nulls and whatever else a structural schema has no place for."""
    if "$ref" in node:
        model = models[str(node["$ref"]).removeprefix("#/$defs/")]
        return _inlined({**model, **{name: value for name, value in node.items() if name != "$ref"}}, models)
    if node.get("int-or-string"):
        kept = {name: node[name] for name in ("description", "pattern", "default") if name in node}
        return {**kept, "anyOf": node["anyOf"], "x-kubernetes-int-or-string": True}
    if "anyOf" in node:  # a value or null: an absent field is how Kubernetes says null
        [value] = [each for each in node["anyOf"] if each.get("type") != "null"]
        rest = {name: each for name, each in node.items() if name not in {"anyOf", "default"}}
        return _inlined({**value, **rest}, models)
    found: dict[str, Any] = {}
    for name, value in node.items():
        match name:
            case "properties":
                found[name] = {field: _inlined(each, models) for field, each in value.items()}
            case "items":
                found[name] = _inlined(value, models)
            case "additionalProperties" if isinstance(value, Mapping):
                found[name] = _inlined(value, models)
            case "default":
                found |= _default(node, value)
            case "exclusiveMinimum" | "exclusiveMaximum":
                found |= {name.replace("exclusiveM", "m"): value, name: True}
            case _ if name not in DROPPED:
                found[name] = value
    return found


def _default(node: Mapping[str, Any], value: object) -> dict[str, Any]:
    """Return a field's default; that of an object with fields is {}, and each of its fields brings its own."""
    if value is None:
        return {}
    return {"default": {} if "properties" in node else value}
