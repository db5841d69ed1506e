"""The promises of `ports.Claims`, on every store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.play import expect
from tests.contract.stores import Store
from turnkeeper.core.claim import Busy, Claimed, SessionGone, SessionRecord
from turnkeeper.core.values import Claim
from turnkeeper.ports import Claims

ODD_IDS = ["a/b", "Ünïcödé", "é", "e\u0301", "😀", "\uffff", " ", "a" * 512, "%2e", "x'--", "\u2028"]


async def two_sessions(claims: Claims) -> None:
    """Open the sessions one and two."""
    await claims.open_session("one", "runner-1", 30.0)
    await claims.open_session("two", "runner-2", 30.0)


async def test_a_session_is_seen_by_every_client_as_it_was_opened(store: Store) -> None:
    """A session's record is the same for whoever reads it."""
    mine, other = await store.claims(), await store.claims()
    record = await mine.open_session("s", "runner-1", 12.5, "10.0.0.7:8766")
    assert record == SessionRecord(
        session="s", runner="runner-1", version=record.version, duration_seconds=12.5, address="10.0.0.7:8766"
    )
    assert list(await other.sessions()) == [record]
    assert await other.session("s") == record
    renewed = expect(await mine.renew("s"), SessionRecord)
    assert renewed == replace(record, version=renewed.version)


async def test_opening_a_session_again_adopts_it(claims: Claims) -> None:
    """An opening whose answer was lost is asked again and finds its own record."""
    record = await claims.open_session("s", "runner-1", 30.0)
    assert await claims.open_session("s", "runner-1", 30.0) == record
    assert len(await claims.sessions()) == 1


async def test_each_renewal_has_a_version_of_its_own(claims: Claims) -> None:
    """An observer tells a renewed record from an unchanged one by its version alone."""
    versions = {(await claims.open_session("s", "runner-1", 30.0)).version}
    for _ in range(5):
        versions.add(expect(await claims.renew("s"), SessionRecord).version)
    assert len(versions) == 6
    assert [record.version in versions for record in await claims.sessions()] == [True]


async def test_a_renewal_never_revives_a_session_that_is_gone(claims: Claims) -> None:
    """Gone is for good: closed, declared dead or never there."""
    await claims.open_session("closed", "r", 30.0)
    await claims.close_session("closed")
    dead = await claims.open_session("dead", "r", 30.0)
    assert await claims.declare_dead(dead)
    for session in ("closed", "dead", "never"):
        assert await claims.renew(session) == SessionGone()
        assert await claims.session(session) is None
    assert list(await claims.sessions()) == []


async def test_closing_a_session_twice_is_no_error(claims: Claims) -> None:
    """Who is not sure that it closed closes again, and hits nobody else."""
    await two_sessions(claims)
    await claims.close_session("one")
    await claims.close_session("one")
    assert [record.session for record in await claims.sessions()] == ["two"]


async def test_only_the_version_that_was_observed_is_declared_dead(store: Store) -> None:
    """A session that was renewed since it was looked at lives on."""
    holder, observer = await store.claims(), await store.claims()
    await holder.open_session("s", "r", 30.0)
    (seen,) = await observer.sessions()
    await holder.renew("s")
    assert not await observer.declare_dead(seen)
    (again,) = await observer.sessions()
    assert await observer.declare_dead(again)
    assert not await observer.declare_dead(again)
    assert await holder.renew("s") == SessionGone()


async def test_of_a_renewal_and_a_declaration_at_once_one_wins(store: Store) -> None:
    """Either the renewal came first and the session lives, or it is gone and the renewal says so."""
    holder, observer = await store.claims(), await store.claims()
    for number in range(20):
        record = await holder.open_session(f"s{number}", "r", 30.0)
        renewed, is_dead = await asyncio.gather(holder.renew(f"s{number}"), observer.declare_dead(record))
        assert isinstance(renewed, SessionGone) is is_dead
        left = [known.session for known in await observer.sessions()]
        assert (f"s{number}" in left) is not is_dead


async def test_of_many_declarations_one_is_told_that_it_did_it(store: Store) -> None:
    """A death is declared once, whoever saw it."""
    clients = [await store.claims() for _ in range(3)]
    record = await clients[0].open_session("s", "r", 30.0)
    assert sorted(await asyncio.gather(*(client.declare_dead(record) for client in clients))) == [False, False, True]


async def test_a_claim_has_a_token_above_what_the_journal_has_seen(claims: Claims) -> None:
    """The first claim of a thread begins above the journal's token, not at 1."""
    await two_sessions(claims)
    assert await claims.claim("a", "one", "n1", 0) == Claimed(Claim(session="one", token=1, nonce="n1"))
    assert await claims.claim("b", "one", "n2", 41) == Claimed(Claim(session="one", token=42, nonce="n2"))


async def test_a_claimant_without_a_session_is_told_so(claims: Claims) -> None:
    """Whoever has no session claims nothing, not even what is free."""
    await two_sessions(claims)
    assert await claims.claim("t", "never", "n", 0) == SessionGone()
    await claims.claim("t", "one", "n1", 0)
    await claims.close_session("two")
    assert await claims.claim("t", "two", "n2", 0) == SessionGone()


async def test_a_live_claim_is_busy_for_everybody_else(store: Store) -> None:
    """The second claimant is refused and told who holds the thread; it can't release it either."""
    mine, other = await store.claims(), await store.claims()
    await two_sessions(mine)
    held = expect(await mine.claim("t", "one", "n1", 0), Claimed).claim
    assert await other.claim("t", "two", "n2", 0) == Busy("one")
    await other.release("t", Claim(session="two", token=held.token, nonce="n2"))
    await other.release("t", Claim(session="one", token=held.token + 1, nonce="n1"))
    assert await other.claim("t", "two", "n2", 0) == Busy("one")
    assert await store.claim_of("t") == held


async def test_a_repeated_claim_is_adopted_as_it_stands(claims: Claims) -> None:
    """The same attempt, asked again after a lost answer, has the same claim with the same token."""
    await two_sessions(claims)
    first = await claims.claim("t", "one", "n1", 6)
    assert await claims.claim("t", "one", "n1", 6) == first
    assert await claims.claim("t", "one", "n1", 7) == first


async def test_a_holder_raises_its_own_claim_above_the_journal(claims: Claims) -> None:
    """Where the journal has seen a greater token, the same attempt asks again and stands above it."""
    await two_sessions(claims)
    await claims.claim("t", "one", "n1", 0)
    raised = expect(await claims.claim("t", "one", "n1", 9), Claimed).claim
    assert raised == Claim(session="one", token=10, nonce="n1")
    assert await claims.claim("t", "two", "n2", 9) == Busy("one")


async def test_a_dead_holders_claim_is_replaced_with_a_greater_token(store: Store) -> None:
    """Takeover: the session is gone, so its claim is nobody's; its token still counts."""
    mine, other = await store.claims(), await store.claims()
    await two_sessions(mine)
    held = expect(await mine.claim("t", "one", "n1", 4), Claimed).claim
    await mine.close_session("one")
    taken = expect(await other.claim("t", "two", "n2", 0), Claimed).claim
    assert taken == Claim(session="two", token=held.token + 1, nonce="n2")
    await mine.release("t", held)
    assert await store.claim_of("t") == taken


async def test_what_one_left_behind_does_not_hold_oneself_off(store: Store, claims: Claims) -> None:
    """A claim under one's own session by another attempt is replaced: nobody else could do it while one lives."""
    await two_sessions(claims)
    await store.edit_claim("t", Claim(session="one", token=7, nonce="by hand"))
    assert await claims.claim("t", "two", "n2", 0) == Busy("one")
    assert await claims.claim("t", "one", "n1", 3) == Claimed(Claim(session="one", token=8, nonce="n1"))


@pytest.mark.parametrize("session", ["", "nobody", "x" * 5000])
async def test_a_claim_edited_to_name_nobody_is_replaced(store: Store, claims: Claims, session: str) -> None:
    """A holder that does not exist holds nothing, whatever a hand wrote there."""
    await two_sessions(claims)
    await store.edit_claim("t", Claim(session=session, token=0, nonce=""))
    assert await claims.claim("t", "one", "n1", 5) == Claimed(Claim(session="one", token=6, nonce="n1"))


async def test_a_deleted_claim_is_made_again_above_the_journal(store: Store, claims: Claims) -> None:
    """A claim object that a hand removed does not let an old token live again."""
    await two_sessions(claims)
    await claims.claim("t", "one", "n1", 8)
    await store.edit_claim("t", None)
    assert await claims.claim("t", "two", "n2", 9) == Claimed(Claim(session="two", token=10, nonce="n2"))


async def test_a_released_thread_is_free_at_once(claims: Claims) -> None:
    """A release needs no waiting, and releasing again is no error."""
    await two_sessions(claims)
    held = expect(await claims.claim("t", "one", "n1", 0), Claimed).claim
    await claims.release("t", held)
    await claims.release("t", held)
    assert isinstance(await claims.claim("t", "two", "n2", held.token), Claimed)


async def test_of_many_claimants_one_gets_the_thread(store: Store) -> None:
    """Whoever comes at once from wherever: one holds it, and the rest are told whom."""
    clients = [await store.claims() for _ in range(3)]
    for number in range(12):
        await clients[0].open_session(f"s{number}", "r", 30.0)
    attempts = [clients[number % 3].claim("t", f"s{number}", f"n{number}", 0) for number in range(12)]
    verdicts = await asyncio.gather(*attempts)
    (won,) = [verdict for verdict in verdicts if isinstance(verdict, Claimed)]
    assert [verdict for verdict in verdicts if verdict != won] == [Busy(won.claim.session)] * 11


async def test_of_many_who_replace_a_dead_holder_one_does(store: Store) -> None:
    """A takeover in a crowd has one winner too, and one token above the old."""
    clients = [await store.claims() for _ in range(3)]
    for number in range(9):
        await clients[0].open_session(f"s{number}", "r", 30.0)
    await store.edit_claim("t", Claim(session="dead", token=5, nonce="n"))
    attempts = [clients[number % 3].claim("t", f"s{number}", f"n{number}", 0) for number in range(9)]
    verdicts = await asyncio.gather(*attempts)
    assert [verdict.claim.token for verdict in verdicts if isinstance(verdict, Claimed)] == [6]


@pytest.mark.parametrize("thread_id", ODD_IDS)
async def test_any_allowed_thread_id_can_be_claimed_as_itself(claims: Claims, thread_id: str) -> None:
    """Ids that look alike are two threads; none is trimmed, folded or cut."""
    await two_sessions(claims)
    for other in ODD_IDS:
        assert isinstance(await claims.claim(other, "one" if other == thread_id else "two", "n", 0), Claimed)
    assert await claims.claim(thread_id, "two", "n2", 0) == Busy("one")


async def test_workspaces_share_nothing(store: Store) -> None:
    """A session or a claim of one workspace does not exist in another."""
    mine, other = await store.claims("w"), await store.claims("other")
    await mine.open_session("one", "r", 30.0)
    await other.open_session("two", "r", 30.0)
    assert isinstance(await mine.claim("t", "one", "n1", 0), Claimed)
    assert isinstance(await other.claim("t", "two", "n2", 0), Claimed)
    assert [record.session for record in await other.sessions()] == ["two"]
    assert await other.claim("u", "one", "n", 0) == SessionGone()


async def test_a_cancelled_claim_is_adopted_when_asked_again(store: Store, claims: Claims) -> None:
    """A cancellation leaves the outcome unknown, so the same attempt is asked again and is right."""
    await two_sessions(claims)
    attempt = asyncio.ensure_future(claims.claim("t", "one", "n1", 0))
    await asyncio.sleep(0)
    attempt.cancel()
    await asyncio.gather(attempt, return_exceptions=True)
    assert await claims.claim("t", "one", "n1", 0) == Claimed(Claim(session="one", token=1, nonce="n1"))
    assert await store.claim_of("t") == Claim(session="one", token=1, nonce="n1")
