"""The images that the test cluster runs, built without a registry and kept as archives or in a store of our own.

`base` is a small Debian from the machine's own package mirror, which stands for the base image that a user chooses;
the project's image is built from the project's own Dockerfile on it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.node import PAUSE_IMAGE
from tests.cluster.programs import NoClusterError, cache_folder, only_one

ROOT = Path(__file__).parents[2]

SUITE = "bookworm"
PYTHON = "3.11"
"""The Debian of the base image, and its Python."""

BASE_IMAGE = f"turnkeeper.test/base:{SUITE}"
BUSYBOX = Path("/bin/busybox")
"""Debian's busybox-static: one program that needs nothing else."""

BUILD_SECONDS = 900
"""After which a build is given up: debootstrap took 42 s, pip 30 s; twenty times that."""


def pause_archive() -> Path:
    """The archive of the image that holds each pod's network: it only sleeps."""
    archive = cache_folder() / "pause.tar"
    with only_one("images"):
        if not archive.exists():
            if not BUSYBOX.exists():
                raise NoClusterError(f"there is no {BUSYBOX}: install the package busybox-static")
            container = _buildah("from", "scratch").strip()
            _buildah("copy", container, str(BUSYBOX), "/bin/busybox")
            _buildah("config", "--entrypoint", '["/bin/busybox", "sleep", "2147483647"]', container)
            _buildah("commit", "--rm", container, PAUSE_IMAGE)
            _export(PAUSE_IMAGE, archive)
    return archive


def project_archive(image: str) -> Path:
    """Build the project's image from the tree as it is, under this name, and return its archive."""
    with only_one("images"):
        _ensure_base()
        _buildah(
            "build",
            "--isolation=chroot",
            "--layers",
            f"--build-arg=BASE={BASE_IMAGE}",
            "--build-arg=PIP_NO_INDEX=1",
            f"--build-context=wheels={_wheels('requirements-kubernetes.lock', 'requirements-build.lock')}",
            f"--tag={image}",
            f"--file={ROOT / 'Dockerfile'}",
            str(ROOT),
        )
        archive = cache_folder() / "turnkeeper.tar"
        _export(image, archive)
    return archive


def built_archive(image: str, dockerfile: Path, context: Path) -> Path:
    """Build another image on the base, from a Dockerfile that fetches nothing, and return its archive."""
    with only_one("images"):
        _ensure_base()
        options = ("--isolation=chroot", "--layers", f"--build-arg=BASE={BASE_IMAGE}", f"--tag={image}")
        _buildah("build", *options, f"--file={dockerfile}", str(context))
        archive = cache_folder() / f"{image.rpartition('/')[2].replace(':', '-')}.tar"
        _export(image, archive)
    return archive


def _ensure_base() -> None:
    """Make the base image once: a minimal Debian with Python and the public authorities' certificates."""
    if (
        subprocess.run(_command("inspect", "--type=image", BASE_IMAGE), check=False, capture_output=True).returncode
        == 0
    ):
        return
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache_folder()) as folder:
        root = Path(folder) / "root"
        packages = "python3,python3-venv,ca-certificates"
        _run(["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(root), *_mirror()])
        shutil.rmtree(root / "var/cache/apt")
        container = _buildah("from", "scratch").strip()
        _buildah("copy", container, str(root), "/")
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        _buildah("config", "--env", f"PATH={path}", "--env", "LANG=C.UTF-8", container)
        _buildah("commit", "--rm", container, BASE_IMAGE)


def _mirror() -> list[str]:
    """The package mirror that this machine uses, if it tells; else debootstrap's own choice."""
    command = ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"]
    told = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    fitting = [line.split()[1] for line in told.splitlines() if line.split()[:1] == [SUITE]]
    return fitting[:1]


def _wheels(*locks: str) -> Path:
    """The packages of these locks as wheels for the base's Python, fetched by this machine's own pip settings."""
    key = hashlib.sha256(b"".join((ROOT / lock).read_bytes() for lock in locks)).hexdigest()[:12]
    wheels = cache_folder() / f"wheels-{key}"
    if not wheels.exists():
        with tempfile.TemporaryDirectory(prefix="wheels-", dir=cache_folder()) as folder:
            fetched = Path(folder) / "wheels"
            options = ["--quiet", "--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON}"]
            for lock in locks:
                _run([sys.executable, "-m", "pip", "download", *options, f"--dest={fetched}", f"-r{ROOT / lock}"])
            fetched.rename(wheels)
    return wheels


def _export(image: str, archive: Path) -> None:
    """Write an image's archive whole or not at all."""
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    _buildah("push", image, f"docker-archive:{part}:{image}")  # unlike an OCI archive it is not compressed
    part.rename(archive)


def _command(*arguments: str) -> list[str]:
    """Buildah with a store of its own: what is built here is in nobody's way."""
    store, policy = cache_folder() / "images", cache_folder() / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    return ["buildah", f"--root={store}", f"--runroot={store}-run", "--storage-driver=overlay", *arguments]


def _buildah(*arguments: str) -> str:
    return _run(_command(*arguments))


def _run(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        raise NoClusterError(f"the program `{command[0]}` is not installed")
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS, env=dict(os.environ)
    )
    if finished.returncode != 0:
        raise NoClusterError(f"`{' '.join(command[:6])} …` failed: {(finished.stderr or finished.stdout)[-2000:]}")
    return finished.stdout
