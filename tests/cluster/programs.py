"""The programs of the test cluster: built from their Go modules once, and kept outside the tree.

Each part has a folder under `parts` with a go.mod of its own, since their dependencies disagree. What was built lies in
a cache that is keyed by what it was built from, so that the next run takes seconds. No program is fetched as a binary.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = Path(__file__).parent / "parts"

BUILD_SECONDS = 2400
"""How long one part may take to build: Kubernetes took 5 min on 2 cores with empty caches; eight times that."""

NAMES = {
    "etcd": {"server": "etcd"},
    "temporal": {"server": "temporal-server", "sql": "temporal-sql-tool"},
}
"""Programs of a part that Go would name by a package that says too little."""


class NoClusterError(Exception):
    """There can be no test cluster on this machine; the message says what is missing."""


def cache_folder() -> Path:
    """Where built programs and images are kept between runs: TURNKEEPER_CLUSTER_CACHE, else in the user's cache."""
    given = os.environ.get("TURNKEEPER_CLUSTER_CACHE", "")
    folder = Path(given) if given else Path.home() / ".cache" / "turnkeeper-cluster"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Keep the other processes of this machine that want to make the same thing waiting meanwhile."""
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def programs(part: str, parts: Path = PARTS) -> Path:
    """The folder with a part's programs (kubernetes, etcd, coredns, helm), built now if they are not there yet.

    parts: where the part's module lies, if it is none of the test cluster's.

    Raises:
        NoClusterError: there is no Go here, or the build failed.
    """
    module = parts / part
    flags = _linker_flags(part, (module / "go.mod").read_text("utf-8"))
    key = hashlib.sha256(b"\0".join([*(file.read_bytes() for file in _module_files(module)), flags.encode()]))
    built = cache_folder() / f"{part}-{key.hexdigest()[:12]}"
    if not built.exists():
        with only_one(part):
            if not built.exists():  # nobody else has built it while this process waited
                _build(module, flags, built)
    return built


def tool_packages(go_mod: str) -> list[str]:
    """The packages that a go.mod names as tools: each is one program."""
    blocks = re.findall(r"^tool \((.*?)^\)", go_mod, re.MULTILINE | re.DOTALL)
    return [*" ".join(blocks).split(), *re.findall(r"^tool ([^(\s]+)$", go_mod, re.MULTILINE)]


def _module_files(module: Path) -> list[Path]:
    return [file for file in (module / "go.mod", module / "go.sum") if file.exists()]


def _linker_flags(part: str, go_mod: str) -> str:
    """No symbols, and the version that Kubernetes' programs report, which is not in their source."""
    if part != "kubernetes":
        return "-s -w"
    found = re.search(r"k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)", go_mod)
    if found is None:
        raise NoClusterError(f"{PARTS / part / 'go.mod'} requires no k8s.io/kubernetes")
    values = {"gitVersion": f"v{found[1]}", "gitMajor": found[2], "gitMinor": found[3]}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


def _build(module: Path, flags: str, built: Path) -> None:
    """Build in a copy, so that a build that was cut short leaves nothing that looks whole."""
    part = module.name
    if shutil.which("go") is None:
        raise NoClusterError(f"the program `go` builds {part} and is not installed")
    with tempfile.TemporaryDirectory(prefix=f"{part}-", dir=cache_folder()) as folder:
        work, out = Path(folder) / "module", Path(folder) / "programs"
        work.mkdir()
        out.mkdir()
        for file in _module_files(module):
            shutil.copy(file, work)
        packages = tool_packages((work / "go.mod").read_text("utf-8"))
        command = [
            "go",
            "build",
            "-trimpath",
            "-buildvcs=false",
            f"-ldflags={flags}",
            "-o",
            f"{out}{os.sep}",
            *packages,
        ]
        finished = subprocess.run(
            command,
            cwd=work,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=BUILD_SECONDS,
        )
        if finished.returncode != 0:
            raise NoClusterError(f"{part} did not build: {finished.stdout.strip()[-2000:]}")
        for old, new in NAMES.get(part, {}).items():
            (out / old).rename(out / new)
        out.rename(built)
