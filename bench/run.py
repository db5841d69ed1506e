"""`make bench`: measure, keep the raw figures, and write the tables of docs/benchmarks.md.

make bench                              all that needs nothing else, in under ten minutes on a quiet machine
make bench ARGS="turns accept"          some of it
make bench ARGS="--quick"               a look: fewer and shorter rounds, printed, and the document left as it is
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from bench import accept, cluster, herd, machine, memory, report, stream, sweep, tables, takeover, turns, verify
from bench.peers import measures as peers
from bench.peers.environment import draw
from bench.peers.tables import peers_table

BENCHMARKS: dict[str, tuple[Callable[..., Any], Callable[[Any], str]]] = {
    "turns": (turns.run, tables.turns_table),
    "accept": (accept.run, tables.accept_table),
    "sweep": (sweep.run, tables.sweep_table),
    "memory": (memory.run, tables.memory_table),
    "takeover": (takeover.run, tables.takeover_table),
    "stream": (stream.run, tables.stream_table),
    "cluster": (cluster.run, tables.cluster_table),
    "verify": (verify.run, verify.verify_table),
    "peers": (peers.run, peers_table),
    "herd": (herd.run, herd.herd_table),
}
BY_NAME = frozenset({"cluster", "verify", "peers", "herd"})
"""What takes as long as all the others, or needs a cluster: measured where it is asked for by its name."""


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(BENCHMARKS)}; all but {', '.join(BY_NAME)} if none is given",
    )
    parser.add_argument("--quick", action="store_true", help="a look: the document is left as it is")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {min(unknown)!r}; there are: {', '.join(BENCHMARKS)}")
    described = machine.describe()
    made = {"machine": tables.machine_table(described, quick=asked.quick)}
    print(made["machine"], flush=True)
    for name in asked.names or [name for name in BENCHMARKS if name not in BY_NAME]:
        measure, told = BENCHMARKS[name]
        began = time.monotonic()
        figures = measure(quick=asked.quick)
        path = report.keep(name, described, figures, quick=asked.quick)
        made[name] = told(figures)
        print(
            f"\n{name}: {time.monotonic() - began:.0f} s, raw in {path.relative_to(report.ROOT)}\n\n{made[name]}",
            flush=True,
        )
        if not asked.quick:
            report.write({"machine": made["machine"], name: made[name]})
            if name == "peers":
                draw()


if __name__ == "__main__":
    main()
