"""Rights and tokens, by the API server's own authorizer: what is missing is named, what is granted works at once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_kube_config

from tests.contract.play import expect
from tests.contract.stores import LeaseStore
from tests.soak.waiting import until
from turnkeeper.adapters.kube import connection
from turnkeeper.adapters.kube.answers import Call
from turnkeeper.adapters.kube.api import KubeApi, open_kube_api
from turnkeeper.adapters.kube.lease_claims import LeaseClaims
from turnkeeper.adapters.kube.resources import LEASES, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from turnkeeper.adapters.machine_clock import MachineClock
from turnkeeper.core.claim import Claimed, SessionRecord
from turnkeeper.errors import KubeRefusedError, SettingsError

RBAC = "rbac.authorization.k8s.io"


async def grant(api: KubeApi, namespace: str, *verbs: str) -> None:
    """Let the service account `runner` do these to Leases, and no more."""
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}
    head = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "runner"}}
    await api.apply(
        ROLES, namespace, "runner", head | {"rules": [rule] if verbs else []}, field_manager="turnkeeper-test"
    )


@dataclass(frozen=True)
class PodFiles:
    """What the kubelet projects into a pod."""

    token: Path
    authority: Path

    def put(self, token: str, authority: str = "") -> None:
        """Write them, or the token anew."""
        self.token.write_text(token, "ascii")
        if authority:
            self.authority.write_text(Path(authority).read_text("ascii"), "ascii")

    def lose_token(self) -> None:
        """Take the token away."""
        self.token.unlink()


@pytest.fixture
async def token(api: KubeApi, namespace: str) -> str:
    """A token of the service account `runner`, which has a role without any right."""
    await api.create(
        SERVICE_ACCOUNTS, namespace, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}}
    )
    await grant(api, namespace)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "runner"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "runner"},
        "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": namespace}],
    }
    await api.create(ROLE_BINDINGS, namespace, binding)
    return await new_token(api, namespace)


async def new_token(api: KubeApi, namespace: str) -> str:
    """Ask for a token, as the kubelet does for a pod."""
    asked = Call(
        verb="create",
        method="POST",
        resource=SERVICE_ACCOUNTS,
        namespace=namespace,
        name="runner",
        subresource="token",
        body={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}},
    )
    answer = await api._caller.call(asked)
    return str(answer["status"]["token"])


@pytest.fixture
async def pod(kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PodFiles:
    """The place of a pod: the API server's address in the environment, its CA and a token that is no good, as files."""
    configuration = Configuration()
    await load_kube_config(config_file=str(kubeconfig), client_configuration=configuration, persist_config=False)
    host, _, port = str(configuration.host).removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port or "443")
    files = PodFiles(tmp_path / "token", tmp_path / "ca.crt")
    files.put("old", str(configuration.ssl_ca_cert))
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    return files


@pytest.fixture
async def pod_claims(pod: PodFiles, token: str, store: LeaseStore) -> LeaseClaims:
    """Sessions and claims as a pod with the service account's token makes them."""
    pod.put(token)
    store.opened.append(await open_kube_api(deadline_seconds=10.0))
    return LeaseClaims(store.opened[-1], store.place(), MachineClock(), deadline_seconds=20.0)


async def refusal_of(claims: LeaseClaims, step: str) -> KubeRefusedError:
    """Return how a step is refused."""
    steps = {
        "open": lambda: claims.open_session("s", "r", 30.0),
        "renew": lambda: claims.renew("s"),
        "list": claims.sessions,
    }
    with pytest.raises(KubeRefusedError) as raised:
        await steps[step]()
    assert raised.value.status == 403
    return raised.value


@pytest.mark.parametrize(("step", "verb"), [("open", "create"), ("renew", "patch"), ("list", "list")])
async def test_a_right_that_is_missing_is_named(
    pod_claims: LeaseClaims, store: LeaseStore, step: str, verb: str
) -> None:
    """Whoever reads it can write the rule; and it is told at once, not after a row of tries."""
    began = time.monotonic()
    text = str(await refusal_of(pod_claims, step))
    assert time.monotonic() - began < 5
    assert f"{verb} leases.coordination.k8s.io" in text
    assert f'in namespace "{store.namespace}"' in text
    assert f'apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["{verb}"]' in text
    assert f"system:serviceaccount:{store.namespace}:runner" in text


async def test_these_six_verbs_are_all_that_claims_need(
    api: KubeApi, pod_claims: LeaseClaims, store: LeaseStore
) -> None:
    """A whole life with its takeover, and one verb less breaks it; a right that is given back works at once."""
    verbs = ("get", "list", "create", "update", "patch", "delete")
    for missing in verbs:
        await grant(api, store.namespace, *(verb for verb in verbs if verb != missing))
        await until(lambda missing=missing: _is_refused(pod_claims, missing), f"refused without {missing}")  # type: ignore[misc]  # a default binds the loop's value
    await grant(api, store.namespace, *verbs)
    await until(lambda: _is_whole(pod_claims), "a whole life with all six verbs")


async def _is_refused(claims: LeaseClaims, verb: str) -> bool:
    try:
        await _live(claims)
    except KubeRefusedError as error:
        return f'verbs: ["{verb}"]' in str(error)
    return False


async def _is_whole(claims: LeaseClaims) -> bool:
    try:
        await _live(claims)
    except KubeRefusedError:
        return False
    return True


async def _live(claims: LeaseClaims) -> None:
    await claims.open_session("one", "r", 30.0)
    await claims.open_session("two", "r", 30.0)
    await claims.claim("t", "one", "n", 0)
    record = expect(await claims.renew("one"), SessionRecord)
    assert await claims.declare_dead(record)
    assert record not in await claims.sessions()
    taken = expect(await claims.claim("t", "two", "m", 0), Claimed)
    await claims.release("t", taken.claim)
    await claims.close_session("two")


async def test_a_token_that_was_replaced_is_read_again(
    api: KubeApi, pod: PodFiles, token: str, store: LeaseStore
) -> None:
    """The file has a new token: the call that met 401 with the old one is sent again with it, by the same client."""
    await grant(api, store.namespace, "list")
    store.opened.append(client := await open_kube_api(deadline_seconds=10.0))
    with pytest.raises(KubeRefusedError, match=r"\(401\)"):
        await client.list(LEASES, store.namespace)
    pod.put(f"{token}\n")

    async def is_let_in() -> bool:
        try:
            return (await client.list(LEASES, store.namespace)).items == ()
        except KubeRefusedError as error:
            assert error.status == 403, error  # noqa: PT017 - the role's rule may take a moment, the token may not
            return False

    await until(is_let_in, "the list is allowed")


async def test_a_token_is_read_again_before_it_ends(
    api: KubeApi, pod: PodFiles, token: str, store: LeaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a 401: the file is read on a schedule, and a file that is gone for a moment costs nothing."""
    monkeypatch.setattr(connection, "TOKEN_SECONDS", 0.0)
    pod.put(token)
    store.opened.append(client := await open_kube_api(deadline_seconds=10.0))
    pod.lose_token()
    with pytest.raises(KubeRefusedError, match=r"\(403\)"):  # known, and without a right
        await client.list(LEASES, store.namespace)
    pod.put(second := await new_token(api, store.namespace))
    with pytest.raises(KubeRefusedError, match=r"\(403\)"):
        await client.list(LEASES, store.namespace)
    assert client._caller._connection.identity.bearer == f"Bearer {second}"


@pytest.mark.parametrize("place", ["no file", "no cluster in it", "no yaml", "a pod without a token"])
async def test_where_there_is_no_way_to_a_cluster_it_says_what_to_do(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a pod's token nor a kubeconfig, or one that nobody can read."""
    file = tmp_path / "config"
    texts = {"no cluster in it": json.dumps({"apiVersion": "v1", "kind": "Config"}), "no yaml": "a: ["}
    if place in texts:
        file.write_text(texts[place], "ascii")
    monkeypatch.setenv("KUBECONFIG", str(file))
    if place == "a pod without a token":
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(SettingsError, match="no way to a Kubernetes API server"):
        await open_kube_api()
