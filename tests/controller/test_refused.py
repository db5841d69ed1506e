"""What the API server refuses, with which words; and that all it accepts can be acted on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.cluster import Cluster
from tests.controller.workspaces import NAMES, POSTGRES, RICH
from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import SECRETS, WORKSPACES
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.metrics import ControllerMetrics
from turnkeeper.controller.reconcile import Reconciler
from turnkeeper.controller.view import View
from turnkeeper.errors import KubeRefusedError
from turnkeeper.settings.workspace import read_spec

MOUNT = {"name": "a", "mountPath": "/srv"}
VOLUME = {"name": "a", "emptyDir": {}}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no journal", {"journal": {}}, "set exactly one of sqlite, postgres"),
    ("two journals", {"journal": {"sqlite": {}, **POSTGRES}}, "set exactly one of sqlite, postgres"),
    ("no handler", {"handler": {}}, "set exactly one of python, exec, http, chat, echo"),
    ("two handlers", {"handler": {"echo": {}, "python": {"entryPoint": "a:b"}}}, "set exactly one of python"),
    ("two runners on one file", {"runner": {"replicas": 2}}, "set runner.replicas to 1, or use journal.postgres"),
    ("a ttl that is too short", {"claimTTLSeconds": 2}, "greater than or equal to 3"),
    ("a ttl that is too long", {"claimTTLSeconds": 601}, "less than or equal to 600"),
    ("no interval", {"recover": {"intervalSeconds": 0}}, "greater than or equal to 1"),
    ("no time for a turn", {"turn": {"timeoutSeconds": 0}}, "greater than or equal to 1"),
    ("no attempt", {"turn": {"maxAttempts": 0}}, "greater than or equal to 1"),
    ("no such entry point", {"handler": {"python": {"entryPoint": "a b"}}}, "entryPoint"),
    ("no command", {"handler": {"exec": {"command": []}}}, "at least 1 items"),
    ("a long script", {"handler": {"exec": {"command": ["sh", "x" * 20_000, "y" * 20_000]}}}, "into the image"),
    ("a URL that is none", {"handler": {"http": {"url": "ftp://x"}}}, "https?"),
    ("a header that is none", {"handler": {"http": {"url": "http://x", "headers": {"a b": "c"}}}}, "no such name"),
    ("no time at all", {"handler": {"http": {"url": "http://x", "timeoutSeconds": 0}}}, "greater than 0"),
    ("a setting as a variable", {"runner": {"env": [{"name": "TURNKEEPER_X"}]}}, "own fields"),
    ("a variable twice", {"runner": {"env": [{"name": "A"}, {"name": "A"}]}}, "Duplicate value"),
    (
        "a value and a source",
        {"runner": {"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]}},
        "not both",
    ),
    ("no source", {"runner": {"env": [{"name": "A", "valueFrom": {}}]}}, "exactly one of secretKeyRef"),
    ("no such quantity", {"runner": {"resources": {"limits": {"memory": "much"}}}}, "memory"),
    ("a mount of nothing", {"runner": {"podTemplate": {"volumeMounts": [MOUNT]}}}, "names one of volumes"),
    (
        "a mount over the journal",
        {
            "runner": {
                "podTemplate": {"volumes": [VOLUME], "volumeMounts": [{**MOUNT, "mountPath": "/var/lib/turnkeeper/x"}]}
            }
        },
        "the runner's own",
    ),
    ("a volume of the runner's", {"runner": {"podTemplate": {"volumes": [{**VOLUME, "name": "turnkeeper-x"}]}}}, "own"),
    (
        "a volume of two kinds",
        {"runner": {"podTemplate": {"volumes": [{**VOLUME, "configMap": {"name": "a"}}]}}},
        "exactly",
    ),
    ("a label that is none", {"runner": {"podTemplate": {"labels": {"a b": "c"}}}}, "must be a label's"),
    ("a toleration of nothing", {"runner": {"podTemplate": {"tolerations": [{}]}}}, "operator is Exists"),
]


@pytest.mark.parametrize(("case", "spec", "words"), REFUSED, ids=[case for case, _, _ in REFUSED])
async def test_what_can_not_be_acted_on_is_refused(
    cluster: Cluster, case: str, spec: dict[str, Any], words: str
) -> None:
    """Where it is typed, in words that say what would do."""
    with pytest.raises(KubeRefusedError) as refused:
        await cluster.apply(**spec)
    assert words in str(refused.value), case


@pytest.mark.parametrize("name", ["1st", "a.b", "a" * 41])
async def test_a_name_that_no_service_can_have_is_refused(cluster: Cluster, name: str) -> None:
    """Its objects are named for it."""
    with pytest.raises(KubeRefusedError, match="its Service is named for it"):
        await cluster.apply(name)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {"journal": POSTGRES}, "the log would stay behind"),
        ({"journal": POSTGRES}, {}, "the log would stay behind"),
        ({}, {"journal": {"sqlite": {"size": "2Gi"}}}, "change its PersistentVolumeClaim"),
        ({}, {"journal": {"sqlite": {"storageClassName": "fast"}}}, "change its PersistentVolumeClaim"),
    ],
)
async def test_what_would_lose_a_log_is_refused(
    cluster: Cluster, before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    """A journal's kind and volume stay what they were; anything else may change beside them."""
    await cluster.apply(**before)
    await cluster.apply(**before, claimTTLSeconds=60)
    with pytest.raises(KubeRefusedError) as refused:
        await cluster.apply(**after)
    assert words in str(refused.value)


LARGE = "x" * 29_990
ACCEPTED: list[dict[str, Any]] = [
    {},
    RICH,
    {"journal": POSTGRES, "runner": {"replicas": 0}},
    {"runner": {"replicas": 0}, "suspend": True},
    {"claimTTLSeconds": 3, "recover": {"intervalSeconds": 1}, "turn": {"timeoutSeconds": 1, "progressSeconds": 1}},
    {
        "claimTTLSeconds": 600,
        "recover": {"intervalSeconds": 3600},
        "turn": {"timeoutSeconds": 604800, "maxAttempts": 100},
    },
    {"runner": {"drainSeconds": 3600, "maxTurns": 10000}},
    {"handler": {"exec": {"command": ["sh", "-c", LARGE], "environment": {"A": "b\nc"}, "killGraceSeconds": 600}}},
    {"handler": {"http": {"url": "http://x", "headers": {"X-A": "b"}, "timeoutSeconds": 0.5}}},
    {"handler": {"chat": {"baseUrl": "https://x", "model": "m", "systemPrompt": "🐙" * 32_768, "temperature": 0}}},
    {
        "runner": {
            "podTemplate": {
                "labels": {"turnkeeper.dev/workspace-uid": "x", "a.b/c": ""},
                "annotations": {"a/b": "ü\u2028\x85\ufeff🐙"},
            }
        }
    },
    {"runner": {"podTemplate": {"tolerations": [{"operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}]}}},
    {"journal": {"sqlite": {"size": 1073741824, "storageClassName": "fast", "whenDeleted": "Delete"}}},
    {"runner": {"resources": {"requests": {"cpu": 1, "memory": "0.5Gi"}, "limits": {"memory": "1e9"}}}},
]


@pytest.mark.parametrize("spec", ACCEPTED, ids=range(len(ACCEPTED)))
async def test_what_is_accepted_is_acted_on(cluster: Cluster, api: KubeApi, spec: dict[str, Any]) -> None:
    """Every object of it is accepted, too; and a second time there is nothing to do."""
    await api.create(
        SECRETS,
        cluster.namespace,
        {
            "metadata": {"name": "database"},
            "stringData": {"url": "postgresql://x"},
            "apiVersion": "v1",
            "kind": "Secret",
        },
    )
    name = "a" * 40
    workspace = await cluster.apply(name, **spec)
    reconciler = Reconciler(api, View(Quiet()), "turnkeeper:1", ControllerMetrics())
    names = Names.of(await api.get(WORKSPACES, cluster.namespace, name))
    assert names.uid != NAMES.uid
    assert (await reconciler.reconcile(names, read_spec(workspace))).problem is None
    before = await cluster.written()
    reconciler.doubt()
    assert (await reconciler.reconcile(names, read_spec(workspace))).problem is None
    assert await cluster.written() == before


class Quiet:
    """Listens to nothing."""

    def changed(self, key: object) -> None:
        """See `view.Listener`."""

    def became_ready(self, key: object) -> None:
        """See `view.Listener`."""

    def died(self, key: object, pod: object) -> None:
        """See `view.Listener`."""
