"""A runner with many claims is killed, and the API server takes few writes (S30): one wave, and no second one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.stores import LeaseStore
from tests.kube.fault_proxy import FaultProxy
from tests.kube.herd import WORKSPACE, Site, run_herd
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.sql_journal import open_journal

CLAIMS, WRITES_PER_SECOND, TTL_SECONDS = 200, 30, 12.0
"""So that what is to be written takes longer than a ttl: a session that is not renewed meanwhile would lapse."""


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_herd_is_taken_over_in_one_wave(
    store: LeaseStore, api: KubeApi, proxy: FaultProxy, kubeconfig: Path, postgresql_url: str, tmp_path: Path
) -> None:
    """Each thread runs once more and no thread twice; nobody else's session lapses; few calls are made in vain."""
    journal = await open_journal(postgresql_url, WORKSPACE)
    site = Site(kubeconfig, store.namespace, postgresql_url, tmp_path)
    try:
        told = await run_herd(
            site, proxy, api, journal, claims=CLAIMS, ttl_seconds=TTL_SECONDS, writes=WRITES_PER_SECOND
        )
    finally:
        await journal.aclose()
    assert told.attempts == {"2": CLAIMS}, told
    assert told.lapsed == 0, told
    assert min(told.shares) > CLAIMS / 5, told
    assert told.longest_renewal_gap_seconds < TTL_SECONDS * 2 / 3, told
    assert told.refused < 0.2 * told.writes, told
    # A claim is made and given back; as few threads are left, both try for the same one now and then.
    assert told.writes < 2.8 * CLAIMS + 2 * 3 * told.seconds / TTL_SECONDS, told
