"""What the API server's answers mean: one verdict for each status, told so that its reader knows what to do.

A refused call (4xx) did nothing. A write that met 5xx may have been done: the API server answers so, too, when it lost
etcd's own answer. 429 is always told before anything is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from turnkeeper.adapters.kube.resources import Resource
from turnkeeper.errors import (
    KubeConflictError,
    KubeGoneError,
    KubeNotFoundError,
    KubeRefusedError,
    TurnkeeperError,
    UnavailableError,
    UnknownOutcomeError,
)

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON; what it holds is the API's affair, not this type's."""

TEXT_CHARS_MAX = 500
"""How much of a server's own words is told. Arbitrary: its sentences are short, a proxy's HTML page is not."""

_ESCAPED = {
    number: f"\\u{number:04x}"
    for number in (*range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000), 0xFEFF, 0xFFFE, 0xFFFF)
}

SERVER_ERRORS = 500
TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `verb` is the one that RBAC rules name; a read is told from a write by it."""

    verb: str
    method: str
    resource: Resource
    namespace: str | None
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Object | None = None
    content_type: str = "application/json"

    @property
    def is_write(self) -> bool:
        """Whether the call, once sent, may have changed something."""
        return self.verb not in {"get", "list", "watch"}

    @property
    def path(self) -> str:
        """The path that it is sent to."""
        return self.resource.path(self.namespace, self.name, self.subresource)

    @property
    def body_text(self) -> str | None:
        """What is sent: JSON, and YAML as well, which an apply is read as.

        A character beyond U+FFFF stands for itself, since YAML knows no pairs of escapes; what YAML takes for a line's
        end or for unprintable is escaped, which JSON does not ask for.
        """
        return None if self.body is None else json.dumps(self.body, ensure_ascii=False).translate(_ESCAPED)

    def __str__(self) -> str:
        """Return what was asked, in the words of a rule: `update leases.coordination.k8s.io "a" in namespace "b"`."""
        kind = f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)
        what = f'{self.verb} {kind} "{self.name}"' if self.name else f"{self.verb} {kind}"
        if not self.resource.namespaced:
            return what
        return f'{what} in namespace "{self.namespace}"' if self.namespace else f"{what} in all namespaces"


def unanswered(call: Call, why: str) -> UnavailableError:
    """Return the error of a call that was sent, or may have been, and had no whole answer."""
    if call.is_write:
        return UnknownOutcomeError(f"{call}: {why}; it may or may not have been done")
    return UnavailableError(f"{call}: {why}")


def refusal(call: Call, status: int, headers: Mapping[str, str], body: bytes) -> TurnkeeperError:
    """Return the error that an answer other than 2xx is."""
    reason, message = _said(status, body)
    if status == TOO_MANY_REQUESTS:
        text = f"{call}: the API server is overloaded or limits this client (429): {message}"
        return UnavailableError(text, retry_after_seconds=retry_after_seconds(headers))
    if status >= SERVER_ERRORS:
        text = f"{call}: the API server failed ({status}): {message}"
        kind = UnknownOutcomeError if call.is_write else UnavailableError
        return kind(text, retry_after_seconds=retry_after_seconds(headers))
    match status:
        case 404 if reason == "NotFound":
            return KubeNotFoundError(f"{call}: not found: {message}")
        case 404:  # nobody may conclude from this that an object is gone
            return UnavailableError(
                f"{call}: there is no such part of the API here (404): {message}. Is its definition installed, and is "
                "this the API server's address?"
            )
        case 409:
            return KubeConflictError(f"{call}: {message}", reason)
        case 410:
            return KubeGoneError(f"{call}: the version asked for is too old (410), list afresh: {message}")
        case 401:
            return KubeRefusedError(
                f"{call}: the API server does not know this client (401): {message}. Its token or certificate is "
                "missing, expired or of another cluster",
                status=status,
            )
        case 403:
            return KubeRefusedError(f"{call}: {_forbidden(call, message)}", status=status)
    return KubeRefusedError(f"{call}: the API server does not accept it ({status} {reason}): {message}", status=status)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return what the server asked for in `Retry-After`. A date there is not followed: clocks are not compared."""
    value = headers.get("Retry-After", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None


def error_event(call: Call, status: Object) -> TurnkeeperError:
    """Return the error that a watch's ERROR event is."""
    code = status.get("code")
    return refusal(call, code if isinstance(code, int) else SERVER_ERRORS, {}, json.dumps(status).encode())


def _forbidden(call: Call, message: str) -> str:
    if " cannot " not in message:  # not the authorizer's words: an admission webhook, a quota, a namespace that ends
        return f"this cluster refuses it (403): {message}"
    group, plural = call.resource.group, call.resource.plural
    plural = f"{plural}/{call.subresource}" if call.subresource else plural
    rule = f'apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["{call.verb}"]'
    return f"this client has no right to (403): {message}. Its Role needs the rule {rule}"


def _said(status: int, body: bytes) -> tuple[str, str]:
    """Return the reason and message of a Status; of any other body, which some proxy wrote, its beginning."""
    text = body.decode("utf-8", "replace").strip()
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if isinstance(told, dict) and told.get("kind") == "Status":
        return str(told.get("reason") or status), str(told.get("message") or "no message")[:TEXT_CHARS_MAX]
    return str(status), " ".join(text.split())[:TEXT_CHARS_MAX] or "no message"
