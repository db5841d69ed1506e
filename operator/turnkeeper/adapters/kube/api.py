"""The Kubernetes API as plain JSON: every call with a deadline, every answer a verdict.

kubernetes-asyncio's generated models are left aside: they refuse what a newer server answers, lose the six digits of a
MicroTime and weigh 40 MiB. `connection` says what is used of that library.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from turnkeeper.adapters.kube.answers import Call, Object, error_event, unanswered
from turnkeeper.adapters.kube.caller import Caller, OnCalled
from turnkeeper.adapters.kube.connection import Connection, open_connection
from turnkeeper.adapters.kube.resources import Resource
from turnkeeper.errors import KubeGoneError, UnavailableError

PAGE_OBJECTS = 500
"""Objects of one page of a list: the size that kubectl asks for."""

LEAN_PAGE_OBJECTS = 50
"""Objects of one page where memory counts. Arbitrary: a Deployment takes some 60 KiB while it is read."""

RELISTS_MAX = 3
"""How often a list is begun again whose next page was too old. The server keeps pages for minutes, so once is rare."""

WATCH_SECONDS = 50
"""How long the server keeps a watch. Short, since it may have no bookmark to send: a watch that is silent for longer
than this has lost its server, whatever the socket says."""

QUIET_SECONDS = WATCH_SECONDS + 10.0
"""How long a watch may be quiet where nothing is known of what it watches: until past its end. Arbitrary: some calls'
time."""

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML


@dataclass(frozen=True, slots=True)
class KubeList:
    """Every object there was at `resource_version`, from which a watch goes on."""

    items: tuple[Object, ...]
    resource_version: str


class KubeApi:
    """One client of the API server, for one loop.

    Raises, beside what each method says: KubeRefusedError (400, 401, 403, 422), UnavailableError (429, and for reads
    5xx or no answer in `deadline_seconds`), UnknownOutcomeError (for writes 5xx or a lost answer). Only a call that was
    answered 429, or 401 with an old token, is sent again here.
    """

    def __init__(self, connection: Connection, *, deadline_seconds: float, on_called: OnCalled | None = None) -> None:
        self._caller = Caller(connection, deadline_seconds=deadline_seconds, on_called=on_called)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Return an object, by a fresh read. Raises KubeNotFoundError."""
        return await self._caller.call(
            Call(verb="get", method="GET", resource=resource, namespace=namespace, name=name)
        )

    async def list(
        self, resource: Resource, namespace: str | None, label_selector: str = "", *, is_lean: bool = False
    ) -> KubeList:
        """Return all objects, by a fresh read, of every namespace where it is None. Each page has its own deadline.

        is_lean: leave out `managedFields`, page by small page: for thousands of objects in little memory.
        """
        for _ in range(RELISTS_MAX):
            with suppress(KubeGoneError):
                return await self._list(resource, namespace, label_selector, is_lean=is_lean)
        raise UnavailableError(f"list {resource}: its pages were too old {RELISTS_MAX} times in a row")

    async def _list(self, resource: Resource, namespace: str | None, label_selector: str, *, is_lean: bool) -> KubeList:
        first = Call(verb="list", method="GET", resource=resource, namespace=namespace)
        limit = LEAN_PAGE_OBJECTS if is_lean else PAGE_OBJECTS
        query = {"limit": str(limit)} | ({"labelSelector": label_selector} if label_selector else {})
        items: list[Object] = []
        version = following = ""
        while True:
            page = await self._caller.call(replace(first, query=query | ({"continue": following} if following else {})))
            meta = page.get("metadata") or {}
            for item in page.get("items") or ():
                if is_lean:
                    item["metadata"].pop("managedFields", None)
                items.append(item)
            version = version or str(meta.get("resourceVersion", ""))
            following = str(meta.get("continue") or "")
            if not following:
                return KubeList(tuple(items), version)

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Make an object. Raises KubeConflictError where its name is taken."""
        return await self._caller.call(
            Call(verb="create", method="POST", resource=resource, namespace=namespace, body=body), shown=_name_of(body)
        )

    async def replace(self, resource: Resource, namespace: str | None, name: str, body: Object) -> Object:
        """Replace an object at the version that `body` carries. Raises KubeConflictError, KubeNotFoundError."""
        return await self._caller.call(
            Call(verb="update", method="PUT", resource=resource, namespace=namespace, name=name, body=body)
        )

    async def apply(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        field_manager: str,
        subresource: str = "",
    ) -> Object:
        """Make what `body` says true, taking over its fields from others (server-side apply)."""
        query = {"fieldManager": field_manager, "force": "true"}
        call = Call(verb="patch", method="PATCH", resource=resource, namespace=namespace, name=name, body=body)
        return await self._caller.call(replace(call, subresource=subresource, query=query, content_type=APPLY_PATCH))

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, subresource: str = ""
    ) -> Object:
        """Merge `body` into an object that exists (RFC 7386). Raises KubeNotFoundError; makes nothing."""
        call = Call(verb="patch", method="PATCH", resource=resource, namespace=namespace, name=name, body=body)
        return await self._caller.call(replace(call, subresource=subresource, content_type=MERGE_PATCH))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> None:
        """Delete an object, at this uid and version where given. Raises KubeConflictError, KubeNotFoundError."""
        asked = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in asked.items() if value is not None}
        body = {"kind": "DeleteOptions", "apiVersion": "v1"} | (
            {"preconditions": preconditions} if preconditions else {}
        )
        await self._caller.call(
            Call(verb="delete", method="DELETE", resource=resource, namespace=namespace, name=name, body=body)
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        resource_version: str,
        label_selector: str = "",
        *,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield (ADDED, MODIFIED, DELETED or BOOKMARK, object) for what happens after a version.

        It ends after `WATCH_SECONDS`, which is no error: watch on from the version of the last object or bookmark.
        Raises KubeGoneError where that version is not kept any more, UnavailableError where nothing came for
        `quiet_seconds`.
        Close it (`contextlib.aclosing`) when it is left early.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        } | ({"labelSelector": label_selector} if label_selector else {})
        call = Call(verb="watch", method="GET", resource=resource, namespace=namespace, query=query)
        async with aclosing(self._caller.lines(call, quiet_seconds)) as lines:
            async for line in lines:
                event = _event(call, line)
                if event["type"] == "ERROR":
                    raise error_event(call, event["object"])
                yield event["type"], event["object"]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._caller.aclose()


async def open_kube_api(
    *, deadline_seconds: float = 5.0, kubeconfig: Path | None = None, on_called: OnCalled | None = None
) -> KubeApi:
    """Return a client for a kubeconfig, else for this pod's service account, else for the user's own kubeconfig.

    Raises SettingsError where there is none of them. Nothing is sent yet.
    """
    return KubeApi(await open_connection(kubeconfig), deadline_seconds=deadline_seconds, on_called=on_called)


def _name_of(body: Object) -> str:
    return str((body.get("metadata") or {}).get("name") or "")


def _event(call: Call, line: bytes) -> Object:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict) or not {"type", "object"} <= event.keys():
        raise unanswered(call, f"a line of the watch is no event: {line[:80]!r}")
    return event
