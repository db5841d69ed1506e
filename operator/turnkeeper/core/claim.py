"""Claims and sessions: who may run a thread's turns.

Theory. A claim is live exactly as long as its session exists and it is not released. So everything about takeover is
one question: *does that session exist?* A session is declared dead by deleting it at the very version that was
observed; a deletion that finds a newer version does nothing. Once gone it can't be renewed, and a new life is a new
session, so an old view of "gone" is always right. An old view of "not there" is not: before a takeover, absence comes
from a deletion that was seen or from a fresh read.

A claim does not prove that one is alone. The journal does: every write of a run carries the claim's token and its
session (`Fence`), checked under the thread's row lock. The token is greater than any that the journal or the claim
object ever showed, so that a claim that was deleted, restored or edited by hand never lets an old one live again.

    seen claim                          claimant does      token
    ----------------------------------  -----------------  -----------------------------
    none                                creates            max(journal, 0) + 1
    own session, own nonce              adopts             as it stands (a lost answer), raised to
                                                           journal + 1 where the journal is ahead
    own session, other nonce            replaces at the    max(journal, claim) + 1
                                        version it read
    another session that exists         is refused: busy   -
    session does not exist              replaces at the    max(journal, claim) + 1
                                        version it read

A runner takes a thread in one task at a time, so what stands under its own session by another nonce was left behind by
itself or put there by a hand. Busy with oneself would hold the thread for as long as one lives. Should a run of one's
own stand behind it after all, the greater token ends that run: the journal still has one writer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnkeeper.core.values import Claim

SESSION_SECONDS_MAX = 600.0
"""Longest duration of a session's record that an observer honours: nonsense in a record must not freeze a thread."""

SESSION_SECONDS_MIN = 0.05
"""Shortest one. Arbitrary: above any scheduler's grain, so that zero or less does not kill a live session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session as its store shows it. `version` changes with each renewal; it has no order and no time in it.

    address: where the session's process answers its peers, as `host:port`; empty where it does not.
    """

    session: str
    runner: str
    version: str
    duration_seconds: float
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A session's record, and when this observer first saw that version, on the observer's own monotonic clock."""

    record: SessionRecord
    since_seconds: float


@dataclass(frozen=True, slots=True)
class Busy:
    """A live claim stands; `session` holds it."""

    session: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claim is the claimant's, with this token."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The claimant's own session does not exist: it may claim nothing under it any more."""


def claim(
    seen: Claim | None, *, session: str, nonce: str, journal_token: int, existing: frozenset[str]
) -> Claimed | Busy | SessionGone:
    """Decide a claimant's attempt (spec actions Claim and Refused).

    existing: the sessions that were seen to exist in a read no older than `seen`.
    """
    if session not in existing:
        return SessionGone()
    if seen is None:
        return Claimed(Claim(session=session, token=journal_token + 1, nonce=nonce))
    if seen.session == session and seen.nonce == nonce:
        return Claimed(seen if seen.token >= journal_token else replace(seen, token=journal_token + 1))
    if seen.session != session and seen.session in existing:
        return Busy(seen.session)
    return Claimed(Claim(session=session, token=max(journal_token, seen.token) + 1, nonce=nonce))


def observe(known: Sighting | None, record: SessionRecord, now_seconds: float) -> Sighting:
    """Return what the observer knows after seeing `record`: a new version starts the count again."""
    if known is not None and known.record.version == record.version:
        return known
    return Sighting(record=record, since_seconds=now_seconds)


def expires_seconds(sighting: Sighting) -> float:
    """Return when, on the observer's clock, the session may be declared dead if it is not renewed before."""
    # In this order: min and max return the first where the second is no number, and NaN must not be for ever.
    duration = max(SESSION_SECONDS_MIN, min(SESSION_SECONDS_MAX, sighting.record.duration_seconds))
    return sighting.since_seconds + duration


def lost_seconds(renewal_started_seconds: float, claim_ttl_seconds: float) -> float:
    """Return when a holder has lost everything, counted from the *start* of its last renewal that succeeded.

    The answer may have been on its way for long: an observer that saw the record before the holder heard of it counts
    from no earlier than this start, so the holder always stops first.
    """
    return renewal_started_seconds + claim_ttl_seconds
