"""The Workspace's reference for people: each field with its kind, default, bounds and meaning, made from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from turnkeeper.settings.workspace_crd import COLUMNS, workspace_crd

HEAD: Final = """# The Workspace

Every field of `turnkeeper.dev/v1alpha1`, kind `Workspace`. Made by `make crd` from the models in
operator/turnkeeper/settings: edit those. `kubectl explain workspace.spec` tells the same from a cluster.
"""

EXAMPLE: Final = """
    apiVersion: turnkeeper.dev/v1alpha1
    kind: Workspace
    metadata:
      name: orders
    spec:
      journal:
        postgres:
          urlSecretRef: {name: database, key: url}
      handler:
        http:
          url: http://agent.default/turn
      runner:
        replicas: 3
"""


def reference_text() -> str:
    """Return the page in Markdown."""
    version = workspace_crd()["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [HEAD, EXAMPLE, "\n## Rules\n\n"]
    parts += [f"* `{path or 'metadata.name'}`: {message}\n" for path, message in _rules(schema, "")]
    for name in ("spec", "status"):
        parts.append(f"\n## {name}\n\n| field | kind | default | bounds | |\n|---|---|---|---|---|\n")
        parts += [_row(path, node) for path, node in _fields(schema["properties"][name], name)]
    parts.append("\n## Columns of `kubectl get workspaces`\n\n| column | |\n|---|---|\n")
    parts += [f"| {name}{' (-o wide)' if wide else ''} | {told} |\n" for name, _, _, told, wide in COLUMNS]
    return "".join(parts)


def _fields(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        at = f"{path}.{name}"
        yield at, child
        yield from _fields(child, at)
        if isinstance(child.get("items"), Mapping):
            yield from _fields(child["items"], f"{at}[]")


def _rules(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for rule in node.get("x-kubernetes-validations", ()):
        yield path, rule["message"]
    for name, child in node.get("properties", {}).items():
        at = f"{path}.{name}".lstrip(".")
        yield from _rules(child, at)
        if isinstance(child.get("items"), Mapping):
            yield from _rules(child["items"], f"{at}[]")


def _row(path: str, node: Mapping[str, Any]) -> str:
    default = node.get("default")
    shown = "" if default in (None, {}) else f"`{json.dumps(default)}`"
    return f"| `{path}` | {_kind(node)} | {shown} | {_bounds(node)} | {node.get('description', '')} |\n"


def _kind(node: Mapping[str, Any]) -> str:
    if node.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    if "additionalProperties" in node:
        return "map"
    return str(node["type"])


def _bounds(node: Mapping[str, Any]) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    found = []
    if least is not None:
        found.append(f"{'>' if node.get('exclusiveMinimum') else '≥'} {least:g}")
    if most is not None:
        found.append(f"≤ {most:g}")
    for name, unit in (("maxLength", "characters"), ("maxItems", "items"), ("maxProperties", "keys")):
        if name in node:
            found.append(f"≤ {node[name]} {unit}")
    return ", ".join(found)
