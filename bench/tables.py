"""From raw figures to the tables that people read, each figure beside its limit (design section 7)."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.report import table

TURNS_MIN = 500
FLOOR_SHARE_MIN = 0.4
ACCEPT_P50_MAX, ACCEPT_P99_MAX = 5.0, 25.0
FIRST_START_MAX = 100.0
SEEN_P99_MAX = 100.0
NOTICED_P50_MAX, NOTICED_P99_MAX = 0.25, 1.0
IDLE_MIB_MAX = 120.0
LOOK_BYTES_MAX = 2048
SECONDS_OVER_TTL = 2.0

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def median(values: Sequence[float]) -> float:
    """Return the middle value."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile, taken from the values themselves: of few values the 99th is the greatest."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return the median with the least and the greatest."""
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def held(*, met: bool) -> str:
    """Return how a limit stands."""
    return "held" if met else "**missed**"


def machine_table(machine: Mapping[str, Any], *, quick: bool) -> str:
    """Return the machine."""
    sync = machine["sync_milliseconds"]
    rows = [
        ["measured", f"{dt.datetime.now(dt.UTC):%Y-%m-%d}{', quick: fewer and shorter rounds' * quick}"],
        ["processor", f"{machine['cores']} cores, {machine['processor']}, {machine['memory_gib']} GiB"],
        ["load before", f"{machine['load_before']:.2f}"],
        ["a fixed loop of Python", f"{machine['python_loop_milliseconds']:.0f} ms"],
        [
            "disk",
            f"{machine['file_system']}; 4 KiB written and synced: p50 {sync['p50']:.2f} ms, p99 {sync['p99']:.2f} ms",
        ],
        ["kernel", f"Linux {machine['kernel']}"],
        ["versions", f"Python {machine['python']}, SQLite {machine['sqlite']}, PostgreSQL {machine['postgresql']}"],
    ]
    return table(["machine", ""], rows)


def turns_table(figures: Mapping[str, Mapping[str, list[dict[str, float]]]]) -> str:
    """Return turns per second beside their floors."""
    rows = []
    for database, sides in figures.items():
        rates = {side: [one["turns_per_second"] for one in rounds] for side, rounds in sides.items()}
        cost = [one["processor_milliseconds"] for one in sides["turnkeeper"]]
        shares = [mine / bare for mine, bare in zip(rates["turnkeeper"], rates["floor"], strict=True)]
        share_counts = database == "postgresql"
        met = median(rates["turnkeeper"]) >= TURNS_MIN and (not share_counts or median(shares) >= FLOOR_SHARE_MIN)
        limit = f"≥ {TURNS_MIN}" + (f", ≥ {FLOOR_SHARE_MIN} × floor" if share_counts else "")
        wide = spread(rates["floor_wide"]) if "floor_wide" in rates else "–"
        cells = [spread(rates["turnkeeper"]), spread(rates["floor"]), wide, spread(shares, 2), spread(cost, 2)]
        rows.append([NAMES[database], *cells, limit, held(met=met)])
    head = ["", "turns/s", "bare floor", "floor, 32 connections", "× floor", "processor ms/turn", "limit", ""]
    return table(head, rows)


def accept_table(figures: Mapping[str, list[float]]) -> str:
    """Return the latency of accepting a message."""
    rows = []
    for database, taken in figures.items():
        p50, p99 = median(taken), percentile(taken, 99)
        met = p50 <= ACCEPT_P50_MAX and p99 <= ACCEPT_P99_MAX
        cells = [f"{len(taken):,}", f"{p50:.1f}", f"{p99:.1f}", f"{max(taken):.1f}"]
        rows.append([NAMES[database], *cells, f"≤ {ACCEPT_P50_MAX:.0f} / {ACCEPT_P99_MAX:.0f} ms", held(met=met)])
    return table(["", "messages", "p50 ms", "p99 ms", "greatest ms", "limit (p50/p99)", ""], rows)


def sweep_table(figures: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return what a sweep costs at each size, and the plans of the largest."""
    rows, plans = [], []
    for database, sizes in figures.items():
        for size in sizes:
            trials = size["trials"]
            first = [trial["first_start_milliseconds"] for trial in trials]
            listed = [trial["list_milliseconds"] for trial in trials]
            swept = [trial["sweep_milliseconds"] for trial in trials]
            met = median(first) <= FIRST_START_MAX
            cells = [f"{size['threads']:,}", spread(listed, 1), spread(first, 1), spread(swept)]
            rows.append([NAMES[database], *cells, f"≤ {FIRST_START_MAX:.0f} ms", held(met=met)])
        largest = sizes[-1]
        lines = [line for plan in largest["plans"] for line in (*plan, "")]
        heading = (
            f"How {NAMES[database]} lists what is owed, and what is running, among {largest['threads']:,} threads:"
        )
        plans.append("\n".join([heading, "", "```", *lines[:-1], "```"]))
    head = ["", "threads", "list 100 owed, ms", "first start, ms", "sweep of 100, ms", "limit (first start)", ""]
    return "\n\n".join([table(head, rows), *plans])


def memory_table(figures: Mapping[str, Any]) -> str:
    """Return what a runner and a look hold."""
    rows = []
    for database, name in NAMES.items():
        for moment, told in (("started_mib", "just started"), ("after_turns_mib", "after 100 turns")):
            mib = figures[database][moment]
            limit = f"≤ {IDLE_MIB_MAX:.0f} MiB"
            rows.append([f"idle runner on {name}, {told}", f"{mib:.0f} MiB", limit, held(met=mib <= IDLE_MIB_MAX)])
    for kind, told in (("resident", "resident memory"), ("allocation", "tracemalloc")):
        size = figures[f"looks_by_{kind}_bytes"]
        limit = f"≤ {LOOK_BYTES_MAX:,} bytes"
        rows.append([f"armed look, by {told}", f"{size:,.0f} bytes", limit, held(met=size <= LOOK_BYTES_MAX)])
    return table(["", "holds", "limit", ""], rows)


def takeover_table(figures: Mapping[str, Any]) -> str:
    """Return how long a waiting message waits for somebody else."""
    rows = []
    ttl = figures["ttl_seconds"]
    told = {"another": "another process, timer alone", "own_restart": "its own next life"}
    for database, name in NAMES.items():
        noticed = figures[database]["noticed"]
        p50, p99 = median(noticed), percentile(noticed, 99)
        cells = [f"{len(noticed)}", f"{p50:.2f}", f"{p99:.2f}", f"≤ {NOTICED_P50_MAX} / {NOTICED_P99_MAX:.0f} s"]
        met = p50 <= NOTICED_P50_MAX and p99 <= NOTICED_P99_MAX
        rows.append([f"{name}: another process that noticed, ttl 30 s", *cells, held(met=met)])
        for side, who in told.items():
            waited = figures[database][side]
            p99 = percentile(waited, 99)
            cells = [f"{len(waited)}", f"{median(waited):.2f}", f"{p99:.2f}", f"≤ ttl + {SECONDS_OVER_TTL:.0f} s"]
            rows.append([f"{name}: {who}, ttl {ttl:.0f} s", *cells, held(met=p99 <= ttl + SECONDS_OVER_TTL)])
    return table(["", "trials", "p50 s", "p99 s", "limit", ""], rows)


def stream_table(figures: Mapping[str, Any]) -> str:
    """Return how soon an event is seen and a message heard, by way of the run's own runner and of another."""
    rows = []
    told = {"same": "its own runner", "another": "another runner"}
    for database, name in NAMES.items():
        for side, who in told.items():
            seen = figures[database][side]["seen_milliseconds"]
            heard = figures[database][side]["heard_milliseconds"]
            p99 = percentile(seen, 99)
            cells = [f"{len(seen)}", f"{median(seen):.1f}", f"{p99:.1f}"]
            cells += [f"{len(heard)}", f"{median(heard):.1f}", f"{percentile(heard, 99):.1f}"]
            is_bound = database == "postgresql" and side == "another"
            limit = [f"≤ {SEEN_P99_MAX:.0f} ms", held(met=p99 <= SEEN_P99_MAX)] if is_bound else ["", ""]
            rows.append([f"{name}, by way of {who}", *cells, *limit])
    head = ["", "events", "seen p50 ms", "p99 ms", "messages", "heard p50 ms", "p99 ms", "limit (seen p99)", ""]
    return table(head, rows)


CLUSTER_LIMITS = {
    "killed": ("its container is killed", 0.25, 1.0),
    "unconnected": ("the same, without connections between runners", 2.5, 2.5),
    "timer": ("the same, and without a controller", 32.0, 32.0),
    "deleted": ("its pod is deleted", 1.0, 1.0),
    "frozen": ("it freezes", 32.0, 32.0),
}


def cluster_table(figures: Mapping[str, Any]) -> str:
    """Return how long a waiting message waits in a cluster, by what becomes of its holder."""
    rows = []
    for side, (what, p50_max, p99_max) in CLUSTER_LIMITS.items():
        waited = figures[side]
        p50, p99 = median(waited), percentile(waited, 99)
        cells = [f"{len(waited)}", f"{p50:.2f}", f"{p99:.2f}", f"{max(waited):.2f}", f"≤ {p50_max:g} / {p99_max:g} s"]
        rows.append([what, *cells, held(met=p50 <= p50_max and p99 <= p99_max)])
    return table(["the holder", "trials", "p50 s", "p99 s", "greatest s", "limit (p50/p99)", ""], rows)
