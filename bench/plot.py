"""Draw how long a waiting message waits in each system, from the newest kept figures, as docs/takeover.svg.

Run by `make plot`, and at the end of `make bench ARGS="peers"`, under the peers' environment, which holds what draws.
Each trial is a dot, their median a bar; a trial in which nobody took over stands as a hollow triangle at the moment at
which it was given up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

from bench.peers.systems import SYSTEMS

mpl.use("svg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
DRAWING = ROOT / "docs" / "takeover.svg"
RESULTS = ROOT / "bench" / "results"

OURS, THEIRS = "#1f6feb", "#57606a"
TICKS = {0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min"}
FEWEST_SECONDS = 0.03
"""The left end: under what anything took."""

INCHES_WIDE, INCHES_A_ROW = 9.0, 0.48


def newest() -> Mapping[str, Any]:
    """Return the newest kept figures of a full run."""
    kept = sorted(path for path in RESULTS.glob("*-peers.json"))
    if not kept:
        raise SystemExit('there are no figures to draw: `make bench ARGS="peers"` measures them')
    figures: Mapping[str, Any] = json.loads(kept[-1].read_text(encoding="utf-8"))
    return figures


def draw_row(axes: Any, row: int, case: Mapping[str, Any]) -> None:  # noqa: ANN401 - matplotlib ships no type for it here
    """Draw a case's trials."""
    colour = OURS if case["system"] == "turnkeeper" else THEIRS
    came = [one for one in case["seconds"] if one is not None]
    missed = len(case["seconds"]) - len(came)
    if came:
        axes.plot(came, [row] * len(came), "o", color=colour, alpha=0.35, markersize=5, markeredgewidth=0)
        axes.plot([median(came)] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=2.5)
    if missed:
        axes.plot([case["within_seconds"]], [row], ">", color=colour, fillstyle="none", markersize=7)
        said = f"{missed} of {len(case['seconds'])} not within {case['within_seconds']:.0f} s"
        axes.annotate(
            said, (case["within_seconds"], row), (9, -3), textcoords="offset points", fontsize=8, color=colour
        )


def draw(cases: Sequence[Mapping[str, Any]], measured: str) -> None:
    """Write the drawing."""
    order = list(SYSTEMS)
    rows = sorted(cases, key=lambda case: order.index(case["system"]))
    mpl.rcParams.update({"svg.hashsalt": "takeover", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(INCHES_WIDE, INCHES_A_ROW * len(rows) + 1.2), layout="constrained")
    for row, case in enumerate(rows):
        draw_row(axes, row, case)
    axes.set_xscale("log")
    axes.set_xlim(FEWEST_SECONDS, 2000)
    axes.set_xticks(list(TICKS), list(TICKS.values()))
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [f"{SYSTEMS[case['system']]}: {case['settings']}" for case in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", color="#d0d7de", linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, labelsize=9)
    title = f"From the kill of a worker in mid-turn to the start of the thread's next turn ({measured})"
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    figure.savefig(DRAWING, metadata={"Date": None, "Creator": None}, facecolor="white")


def main() -> None:
    """Draw the newest figures."""
    told = newest()
    draw(told["figures"]["takeover"], str(told["time"])[:10])
    print(f"drew {DRAWING.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
