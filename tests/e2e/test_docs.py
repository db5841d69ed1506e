"""Every command of the pages about clusters is run here, in the order in which a reader comes upon them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import wait_until
from tests.e2e.releases import without_release
from tests.e2e.site import COMMAND_SECONDS, RELEASE_NAMESPACE, Site

ROOT = Path(__file__).parents[2]
PAGES = ("docs/install.md", "docs/operations.md")

PROGRAMS = ("docker", "helm", "kubectl")
NAMED_IMAGE = "my.registry/turnkeeper:0.1.0"
"""The image that the pages speak of; here it is another name of the one that was built from the same Dockerfile."""

READER_SECONDS = 60
"""How long a runner may take to be there again after a change that a reader has made."""


def commands(page: str) -> list[str]:
    """The commands of a page, each with its here-document and without its comment."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    found: list[str] = []
    for line in "".join(blocks).splitlines():
        text = line[4:]
        if found and (found[-1].endswith("\\") or _is_open(found[-1])):
            found[-1] += f"\n{text}"
        elif text.startswith(PROGRAMS):
            found.append(text)
    return found


def _is_open(command: str) -> bool:
    """Whether a command's here-document has begun and not ended."""
    return "<<EOF" in command and not command.endswith("\nEOF")


@pytest.fixture
def reader(release: Site, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody who has read the first page to the image: nothing is installed."""
    if release.machine is None:
        pytest.skip("only where this machine is the node can an image be given the pages' name")
    ctr = [*release.machine.node.ctr, "images", "tag", "--force", release.image, NAMED_IMAGE]
    subprocess.run(ctr, check=True, capture_output=True)
    for name, program in (("kubectl", release.kubectl_program), ("helm", release.helm_program)):
        (tmp_path / name).symlink_to(program)
    with without_release(release):
        yield {**os.environ, "KUBECONFIG": str(release.kubeconfig), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        release.kubectl("delete", "persistentvolumeclaims,secrets", "--all")


def test_each_program_of_the_pages_is_known() -> None:
    """A command that this test would not see, since it begins with another program, is on no page."""
    for page in PAGES:
        blocks = re.findall(r"^    (\S+)", (ROOT / page).read_text("utf-8"), re.MULTILINE)
        first_words = {word for word in blocks if word.isalpha() and word.islower()}
        assert first_words <= {*PROGRAMS, "metadata", "spec", "name", "kind"}
        assert len(commands(page)) >= 7


def test_the_image_of_the_pages_is_built_as_here() -> None:
    """The one argument that the page gives the Dockerfile is one that it takes."""
    built = next(command for command in commands("docs/install.md") if command.startswith("docker build"))
    (argument,) = re.findall(r"--build-arg (\w+)=", built)
    assert f"ARG {argument}=" in (ROOT / "Dockerfile").read_text("utf-8")


@pytest.mark.alone
def test_a_reader_comes_from_nothing_to_an_answer_and_back(release: Site, reader: dict[str, str]) -> None:
    """Install, first Workspace, answer, upgrade, suspend, verify, uninstall: as the pages say, in their order."""
    said: dict[str, str] = {}
    for command in (command for page in PAGES for command in commands(page) if not command.startswith("docker")):
        if command.startswith("kubectl exec"):  # a reader waits until the pod is there again
            wait_until(lambda: _answers(release), "the runner is there", seconds=READER_SECONDS)
        finished = subprocess.run(
            ["bash", "-ec", command],
            cwd=ROOT,
            env=reader,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout}{finished.stderr}"
        said[command] = finished.stdout
    answer = next(output for command, output in said.items() if "turnkeeper send" in command)
    assert "hello" in answer
    verdict = next(output for command, output in said.items() if "turnkeeper verify" in command)
    assert '"breaches":0' in verdict.replace(" ", "") or "nothing is breached" in verdict
    assert "turnkeeper" not in release.helm("list", f"--namespace={RELEASE_NAMESPACE}", "--short")


def _answers(site: Site) -> bool:
    """Whether the first Workspace's runner is ready."""
    try:
        wanted = "--output=jsonpath={.status.containerStatuses[0].ready}"
        return site.kubectl("get", "pod", "first-runner-0", wanted) == "true"
    except subprocess.CalledProcessError:
        return False
