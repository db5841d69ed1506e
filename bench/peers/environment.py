"""The peers' own Python environment: pinned apart from the project's locks, and kept outside of the tree.

What it holds is remade by `uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate
--no-emit-index-url bench/peers/requirements.in --output-file bench/peers/requirements.txt`.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from bench.report import ROOT
from tests.cluster.programs import cache_folder, only_one

REQUIREMENTS = Path(__file__).parent / "requirements.txt"


def python() -> Path:
    """Return the interpreter of the environment, which is made now if it is not there yet."""
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache_folder() / f"peers-{key}"
    interpreter, made = folder / "bin" / "python", folder / "made"
    with only_one("peers"):
        if not made.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
            install = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--require-hashes"]
            subprocess.run([str(interpreter), *install, "--requirement", str(REQUIREMENTS)], check=True)
            made.touch()
    return interpreter


def draw() -> None:
    """Draw docs/takeover.svg anew from the newest kept figures."""
    subprocess.run(
        [str(python()), str(ROOT / "bench" / "plot.py")], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


if __name__ == "__main__":
    draw()
