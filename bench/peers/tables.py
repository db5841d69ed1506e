"""The figures of turnkeeper and its peers, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.peers.systems import SYSTEMS
from bench.report import table
from bench.tables import median, percentile, spread


def peers_table(figures: Mapping[str, Any]) -> str:
    """Return turns per second and accepting, then takeovers."""
    rows = []
    for system, name in SYSTEMS.items():
        rates = figures["turns"].get(system)
        if rates is None:
            continue
        cells = [spread(rates[kind]) if kind in rates else "–" for kind in ("in_step", "waiting")]
        taken = figures["accept"].get(system)
        cells += [f"{median(taken):.1f}", f"{percentile(taken, 99):.1f}"] if taken else ["–", "–"]
        rows.append([name, *cells])
    head = ["", "turns/s, in step", "turns/s, messages waiting", "accepted, p50 ms", "p99 ms"]
    return "\n\n".join([*([table(head, rows)] if rows else []), takeover_table(figures["takeover"])])


def takeover_table(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return how long a waiting message waited, by system and by how it is set up."""
    rows = []
    for case in sorted(cases, key=lambda one: list(SYSTEMS).index(one["system"])):
        came = [one for one in case["seconds"] if one is not None]
        missed = len(case["seconds"]) - len(came)
        cells = [f"{median(came):.2f}", f"{min(came):.2f}–{max(came):.2f}"] if came else ["–", "–"]
        late = f"{missed}, not within {case['within_seconds']:.0f} s" if missed else "0"
        rows.append([SYSTEMS[case["system"]], case["settings"], f"{len(case['seconds'])}", *cells, late])
    return table(["", "set up", "trials", "p50 s", "least–greatest s", "never seen"], rows)
