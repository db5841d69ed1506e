"""The API as one page for people, made from the OpenAPI document.

No script and nothing from another host: it reads the same on a laptop, behind a firewall and in a cluster without a
way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h2{margin-top:2.5rem;border-top:1px solid #ccc;padding-top:1rem;font-size:1.1rem}
code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#f4f4f4;padding:.7rem;overflow:auto}
table{border-collapse:collapse}td{padding:.15rem .8rem .15rem 0;vertical-align:top}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre{background:#262626}h2{border-color:#444}}
"""


def render(document: Mapping[str, Any]) -> str:
    """Return the page."""
    info = document["info"]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        f"<style>{_STYLE}</style><h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        _paragraphs(info.get("description", "")),
        "<p>The same for programs: <a href='openapi.json'>openapi.json</a></p><ul>",
    ]
    calls = [(path, verb, call) for path, verbs in document["paths"].items() for verb, call in verbs.items()]
    parts += [f"<li><a href='#{_anchor(verb, path)}'>{_signature(verb, path)}</a></li>" for path, verb, _ in calls]
    parts.append("</ul>")
    for path, verb, call in calls:
        parts += _call(path, verb, call, document["components"]["schemas"])
    return "".join(parts)


def _call(path: str, verb: str, call: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2 id='{_anchor(verb, path)}'>{_signature(verb, path)}</h2>"
    yield f"<p><b>{escape(call['summary'])}.</b></p>{_paragraphs(call.get('description', ''))}"
    if call.get("parameters"):
        yield "<table>"
        for parameter in call["parameters"]:
            told = parameter.get("description") or parameter["schema"].get("description", "")
            yield f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}<td>{escape(told)}"
        yield "</table>"
    for content in call.get("requestBody", {}).get("content", {}).values():
        for example in _examples(content, schemas):
            yield f"<pre>{_shown(example)}</pre>"
    yield "<table>"
    for status, response in call["responses"].items():
        yield f"<tr><td><code>{escape(status)}</code><td>{escape(response.get('description', ''))}"
        for content in response.get("content", {}).values():
            for example in _examples(content, schemas):
                yield f"<pre>{_shown(example)}</pre>"
    yield "</table>"


def _examples(content: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[Any]:
    if "example" in content:
        return [content["example"]]
    if "examples" in content:
        return [example["value"] for example in content["examples"].values()]
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    found: list[Any] = schemas.get(name, {}).get("examples", [])
    return found


def _shown(example: object) -> str:
    return escape(example if isinstance(example, str) else json.dumps(example, indent=2))


def _signature(verb: str, path: str) -> str:
    return f"<code>{escape(verb.upper())} {escape(path)}</code>"


def _anchor(verb: str, path: str) -> str:
    return escape(f"{verb}-{path}".replace("/", "-").replace("{", "").replace("}", ""), quote=True)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())
