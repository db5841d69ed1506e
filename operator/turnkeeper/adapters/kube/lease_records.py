"""Sessions and claims as Lease objects: values in, values out.

    a session   holderIdentity = the runner    leaseDurationSeconds = its duration, rounded up    renewTime: to show
    a claim     holderIdentity = the session   leaseTransitions = the token                       acquireTime: to show

What a Lease's own fields can't hold exactly stands in annotations, which win over them: the thread's id, a session's
id, a duration with a fraction, a token above 2^31. So a hand that edits one of those fields changes what kubectl shows
and nothing else, and one that edits the annotations meets the journal's fence. Times are of this machine's clock, for
people only: nobody decides by them.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from turnkeeper.adapters.kube.answers import Object
from turnkeeper.core.claim import SessionRecord
from turnkeeper.core.values import Claim

MANAGED_BY = "app.kubernetes.io/managed-by"
KIND = "turnkeeper.dev/lease"
WORKSPACE_UID = "turnkeeper.dev/workspace-uid"
"""Labels, to list by. The uid and not the name: a workspace made again under an old name is a new one."""

WORKSPACE = "turnkeeper.dev/workspace"
SESSION = "turnkeeper.dev/session"
THREAD = "turnkeeper.dev/thread"
RUNNER = "turnkeeper.dev/runner"
TOKEN = "turnkeeper.dev/token"  # noqa: S105 - a claim's fencing number, no secret
NONCE = "turnkeeper.dev/nonce"
DURATION = "turnkeeper.dev/duration-seconds"
ADDRESS = "turnkeeper.dev/address"
RENEWAL = "turnkeeper.dev/renewal"
"""Annotations."""

DURATION_SECONDS = 30.0
"""What a session has whose duration can't be read any more. Arbitrary: the default; its holder knows its own."""

TRANSITIONS_MAX = 2**31 - 1
"""The greatest number that the field takes."""

TOKEN_MAX = 2**53
"""A greater token in a claim is a hand's nonsense and not counted; the journal knows the real one. Arbitrary: far
above any that is reached by counting, far below where the journal's column ends."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An object of the same namespace whose end takes a Lease along."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a workspace's Leases lie, and whose they are.

    uid: the Workspace's. workspace_owner, pod: None where there is no such object, as on a person's machine.
    """

    namespace: str
    workspace: str
    uid: str
    workspace_owner: Owner | None = None
    pod: Owner | None = None


def session_name(place: Place, session: str) -> str:
    """Return the name of a session's Lease."""
    return f"tk-session-{_digest(place.uid, session)}"


def claim_name(place: Place, thread_id: str) -> str:
    """Return the name of a thread's claim: a hash, since an id may hold what a name may not."""
    return f"tk-claim-{_digest(place.uid, thread_id)}"


def selector(place: Place, kind: str) -> str:
    """Return what lists a workspace's Leases of a kind: `session` or `claim`."""
    return ",".join(f"{key}={value}" for key, value in _labels(place, kind).items())


def session_lease(
    place: Place, session: str, runner: str, duration_seconds: float, now_ms: int, *, address: str = ""
) -> Object:
    """Return a session's Lease as it is opened."""
    notes = {WORKSPACE: place.workspace, SESSION: session, RUNNER: runner, DURATION: repr(duration_seconds)}
    if address:
        notes[ADDRESS] = address
    return {
        **_lease(place, session_name(place, session), "session", notes, place.pod),
        "spec": {
            "holderIdentity": runner,
            "leaseDurationSeconds": max(1, min(math.ceil(duration_seconds), TRANSITIONS_MAX)),
            "acquireTime": micro_time(now_ms),
            "renewTime": micro_time(now_ms),
        },
    }


def renewal_patch(place: Place, session: str, renewal: str, now_ms: int) -> Object:
    """Return the merge patch that renews a session.

    renewal: another at each renewal, so that the record has a new version although the clock stands still. The id and
    the labels are said again, so that a hand that took them away hides the session for one interval only.
    """
    return {
        "metadata": {"labels": _labels(place, "session"), "annotations": {SESSION: session, RENEWAL: renewal}},
        "spec": {"renewTime": micro_time(now_ms)},
    }


def session_from(place: Place, lease: Object) -> SessionRecord | None:
    """Return the session that a Lease is; None if it is none of this workspace's, or is being deleted."""
    meta, notes = lease["metadata"], _annotations(lease)
    session = notes.get(SESSION, "")
    if not session or meta["name"] != session_name(place, session) or meta.get("deletionTimestamp"):
        return None
    spec = lease.get("spec") or {}
    return SessionRecord(
        session=session,
        runner=notes.get(RUNNER) or spec.get("holderIdentity") or "",
        version=f"{meta['uid']}/{meta['resourceVersion']}",
        duration_seconds=_duration(notes.get(DURATION), spec.get("leaseDurationSeconds")),
        address=notes.get(ADDRESS, ""),
    )


def observed(record: SessionRecord) -> tuple[str, str]:
    """Return the uid and resourceVersion of the Lease that was seen."""
    uid, _, version = record.version.partition("/")
    return uid, version


def claim_lease(place: Place, thread_id: str, claim: Claim, now_ms: int, *, runner: str, seen: Object | None) -> Object:
    """Return a claim's Lease, to be created, or to replace `seen` at the very version that was read."""
    notes = {
        WORKSPACE: place.workspace,
        THREAD: thread_id,
        RUNNER: runner,
        TOKEN: str(claim.token),
        NONCE: claim.nonce,
    }
    lease = _lease(place, claim_name(place, thread_id), "claim", notes, place.workspace_owner)
    if seen is not None:
        lease["metadata"] |= {key: seen["metadata"][key] for key in ("uid", "resourceVersion")}
    spec = {
        "holderIdentity": claim.session,
        "leaseTransitions": max(0, min(claim.token, TRANSITIONS_MAX)),
        "acquireTime": micro_time(now_ms),
    }
    return {**lease, "spec": spec}


def claim_from(thread_id: str, lease: Object) -> Claim:
    """Return the claim that a Lease is: nobody's, with its token, if it is another thread's or is being deleted."""
    notes, spec = _annotations(lease), lease.get("spec") or {}
    is_other = notes.get(THREAD) != thread_id or bool(lease["metadata"].get("deletionTimestamp"))
    return Claim(
        session="" if is_other else spec.get("holderIdentity") or "",
        token=_token(notes.get(TOKEN), spec.get("leaseTransitions")),
        nonce="" if is_other else notes.get(NONCE, ""),
    )


def micro_time(wall_ms: int) -> str:
    """Return a MicroTime as the API server takes it: UTC, exactly six digits, a Z."""
    return (_EPOCH + timedelta(milliseconds=wall_ms)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _lease(place: Place, name: str, kind: str, notes: dict[str, str], owner: Owner | None) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": place.namespace,
        "labels": _labels(place, kind),
        "annotations": notes,
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        ]
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


def _labels(place: Place, kind: str) -> dict[str, str]:
    return {MANAGED_BY: "turnkeeper", KIND: kind, WORKSPACE_UID: place.uid}


def _annotations(lease: Object) -> dict[str, str]:
    return lease["metadata"].get("annotations") or {}


def _digest(uid: str, key: str) -> str:
    """The parts are told apart by NUL, which no id holds; 160 bits."""
    return hashlib.sha256(f"{uid}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _duration(noted: str | None, field: object) -> float:
    for value in (noted, field):
        try:
            duration = float(value)  # type: ignore[arg-type]  # what is no number is caught
        except (TypeError, ValueError):
            continue
        if math.isfinite(duration) and duration > 0:
            return duration
    return DURATION_SECONDS


def _token(noted: str | None, field: object) -> int:
    if noted is not None and re.fullmatch(r"[0-9]{1,16}", noted) and int(noted) <= TOKEN_MAX:
        return int(noted)
    return field if isinstance(field, int) and 0 <= field <= TRANSITIONS_MAX else 0
