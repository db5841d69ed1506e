"""One runner on SQLite in a cluster (S17): its file locked, its disk full, its pod killed, rolled or thrown away."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cluster.cluster import FOLDER
from tests.cluster.processes import wait_until
from tests.e2e.test_changes import assert_all_answered, burst, change
from tests.e2e.victims import kill
from tests.e2e.workspaces import ANSWER_SECONDS, SQLITE, Place, Workspace, is_ready, restarts, spec

KILLS = 3
"""How often in a row: the kubelet waits longer each time before it starts a container again."""

POD = "orders-runner-0"

LOCK_SECONDS = 20
"""How long a stranger keeps the file locked: some times what a call of the API waits for it."""

LOCK = f"""
import sqlite3, time
journal = sqlite3.connect("/var/lib/turnkeeper/journal.sqlite", isolation_level=None)
journal.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
time.sleep({LOCK_SECONDS})
"""

DISK_MEBIBYTES = 16
"""The size of a disk that is soon full. Arbitrary: some times what an empty journal takes."""

COMPLAINTS_MAX = 200
"""Lines that a runner may log while its disk is full. Arbitrary: some for each time that it tries, no flood."""


def asked(seconds: float = 1.0, journal: object = SQLITE) -> dict[str, object]:
    """A Workspace on SQLite whose turns take so long."""
    return {**spec(handler={"echo": {"delaySeconds": seconds}}, replicas=1), "journal": journal}


def send_once(workspace: Workspace, thread: str) -> httpx.Response:
    """Send a message without any patience, and return the answer."""
    url = f"{workspace.place.door(workspace.name).url()}/v1/threads/{thread}/messages"
    headers = {"Authorization": f"Bearer {workspace.token()}"}
    body = {"content": "work", "message_id": uuid.uuid4().hex, "sender": "alice"}
    return httpx.post(url, json=body, headers=headers, timeout=ANSWER_SECONDS * 3)


def lives(workspace: Workspace) -> int:
    """In how many lives the lone runner's container has been ready, 0 while it is not."""
    pods = workspace.runners()
    return restarts(pods)[0] + 1 if len(pods) == 1 and is_ready(pods[0]) else 0


def test_a_runner_is_killed_again_and_again(place: Place) -> None:
    """Each time in the midst of its writes: the file stays whole, and the next life takes what was owed."""
    workspace = place.apply("orders", asked()).wait_ready()
    sent: dict[str, str] = {}
    for number in range(KILLS):
        sent |= burst(workspace, 4, prefix=f"life{number}-")
        (pod,) = workspace.runners()
        kill(place.site, pod)
        wait_until(partial(has_lived, workspace, number + 2), "the container is there again", seconds=60)
    assert_all_answered(workspace, sent)


def has_lived(workspace: Workspace, count: int) -> bool:
    """Whether the runner is ready in so many lives or more."""
    return lives(workspace) >= count


def test_a_file_that_somebody_locks_is_waited_for_within_a_bound(place: Place) -> None:
    """A stranger's transaction of seconds: calls are answered 503 with a time to wait, and nothing is lost after it."""
    workspace = place.apply("orders", asked()).wait_ready()
    sent = burst(workspace, 4)
    command = [place.site.kubectl_program, f"--namespace={place.namespace}", "exec", POD, "--", "python3", "-c", LOCK]
    environment = {**os.environ, "KUBECONFIG": str(place.site.kubeconfig)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"locked\n"
        answer = send_once(workspace, "during")
        assert stranger.poll() is None
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(answer.headers["Retry-After"]) >= 1
    assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
    assert restarts(workspace.runners()) == [0]


@contextmanager
def small_disk(place: Place) -> Iterator[tuple[str, Path]]:
    """Offer a volume that is really small, to one Workspace: its class, and where its files lie on this machine."""
    if place.site.machine is None:
        pytest.skip("only where this machine is the node can a disk of its own be made for a volume")
    name = f"small-{place.namespace}"
    folder = FOLDER / "volumes" / name
    folder.mkdir()
    options = f"size={DISK_MEBIBYTES}m,mode=0777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True, capture_output=True)
    volume = f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  storageClassName: {name}
  capacity: {{storage: {DISK_MEBIBYTES}Mi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {{path: {folder}, type: Directory}}
"""
    place.kubectl("apply", "--filename=-", stdin=volume)
    try:
        yield name, folder
    finally:
        place.kubectl("delete", "workspaces", "--all", "--timeout=60s")
        place.kubectl("delete", "persistentvolume", name, "--wait=false")
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
        folder.rmdir()


def fill(folder: Path) -> Path:
    """Take what is left of a disk, and return the file that has it."""
    filler = folder / "filler"
    subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4096"], check=False, capture_output=True)
    assert os.statvfs(folder).f_bavail == 0
    return filler


def test_a_full_disk_refuses_messages_and_goes_on_once_there_is_room(place: Place) -> None:
    """What is sent is refused in words, the log is no flood, and nobody has to start anything anew."""
    with small_disk(place) as (storage_class, folder):
        journal = {
            "sqlite": {"whenDeleted": "Delete", "size": f"{DISK_MEBIBYTES}Mi", "storageClassName": storage_class}
        }
        workspace = place.apply("orders", asked(3.0, journal)).wait_ready()
        sent = burst(workspace, 4)
        filler = fill(folder)
        refused = [send_once(workspace, f"full{number}") for number in range(5)]
        assert {answer.is_success for answer in refused} == {False}
        assert "full" in refused[0].json()["detail"]
        assert len(place.kubectl("logs", POD).splitlines()) < COMPLAINTS_MAX
        filler.unlink()
        assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
        assert restarts(workspace.runners()) == [0]


@pytest.mark.parametrize("way", ["rolled", "thrown away"])
def test_a_new_pod_takes_over_the_file(place: Place, way: str) -> None:
    """A changed template, or a pod deleted by force: never two on the file, whose turns go on in the new pod."""
    workspace = place.apply("orders", asked(3.0)).wait_ready()
    (before,) = workspace.runners()
    sent = burst(workspace, 4)
    if way == "rolled":
        change(workspace, {"runner": {"env": [{"name": "REVISION", "value": "2"}]}})
    else:
        place.kubectl("delete", "pod", POD, "--force", "--grace-period=0")

    def is_another() -> bool:
        return [pod["metadata"]["uid"] for pod in workspace.runners()] not in ([], [before["metadata"]["uid"]])

    wait_until(is_another, "there is a new pod", seconds=60)
    workspace.wait_ready()
    assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
