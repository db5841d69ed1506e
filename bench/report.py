"""The figures as they are kept: raw in a file for each run, and as tables between markers in docs/benchmarks.md.

Everything between `<!-- table: NAME -->` and `<!-- end: NAME -->` is written here and lost by the next run. What stands
outside of the markers is written by people.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"


def keep(name: str, machine: Mapping[str, object], figures: object, *, quick: bool) -> Path:
    """Write one benchmark's raw figures with the machine they were taken on, and return the file."""
    now = dt.datetime.now(dt.UTC)
    path = RESULTS / f"{now:%Y-%m-%d}-{name}{'-quick' if quick else ''}.json"
    RESULTS.mkdir(exist_ok=True)
    told = {"benchmark": name, "time": f"{now:%Y-%m-%dT%H:%M:%SZ}", "quick": quick, "machine": machine}
    path.write_text(json.dumps({**told, "figures": figures}, indent=1) + "\n", encoding="utf-8")
    return path


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def put(document: str, name: str, text: str) -> str:
    """Return the document with what stands between the name's markers replaced. Raises ValueError without them."""
    markers = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
    put_in, number = markers.subn(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", document)
    if number != 1:
        raise ValueError(f"docs/benchmarks.md must hold the markers of {name} once, not {number} times")
    return put_in


def write(tables: Mapping[str, str]) -> None:
    """Write tables into the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    for name, text in tables.items():
        document = put(document, name, text)
    DOCUMENT.write_text(document, encoding="utf-8")
