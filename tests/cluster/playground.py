"""A cluster for a person to play with: `up` starts it with the project's image in it, `down` leaves nothing of it."""

from __future__ import annotations

import sys

from tests.cluster.cluster import FOLDER, down, up
from tests.cluster.images import project_archive
from tests.cluster.programs import NoClusterError, cache_folder, programs
from turnkeeper import __version__

IMAGE = f"docker.io/library/turnkeeper:{__version__}"
"""What a node takes the chart's own default for, which names no registry."""


def start() -> None:
    """Start the cluster, and say how a shell comes to use it."""
    up().node.load(project_archive(IMAGE))
    found = cache_folder() / "bin"
    found.mkdir(exist_ok=True)
    for part, program in (("kubernetes", "kubectl"), ("helm", "helm")):
        (found / program).unlink(missing_ok=True)
        (found / program).symlink_to(programs(part) / program)
    say(f"export KUBECONFIG={FOLDER / 'kubeconfig'} PATH={found}:$PATH")


def say(text: str) -> None:
    """Print what the person who typed the verb reads."""
    sys.stdout.write(f"{text}\n")


def main() -> int:
    """Do what the Makefile's verb says."""
    verbs = {"up": start, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        say(f"usage: {sys.argv[0]} {'|'.join(verbs)}")
        return 2
    try:
        verbs[sys.argv[1]]()
    except NoClusterError as error:
        say(f"no cluster: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
