"""PostgreSQL dies, falls silent, or fails over without a word (S15): messages are kept, and so are claims and pods."""

from __future__ import annotations

from string import Template

import pytest
import yaml

from tests.cluster.processes import wait_until
from tests.e2e.network import dropped, from_pod, to_pod
from tests.e2e.test_changes import assert_all_answered, burst
from tests.e2e.victims import kill, paused
from tests.e2e.workspaces import DATABASE, Place, Workspace, is_ready, noted, restarts, spec

PORT = 5432
TURN_SECONDS = 2
"""How long a turn takes here. Arbitrary: so that some run whenever something happens."""


def start_standby(place: Place) -> None:
    """Start a second PostgreSQL that follows the first, which from then on commits nothing that both don't have."""
    place.start_database()
    text = Template(DATABASE.read_text("utf-8")).substitute(image=place.site.postgres_image)
    pod = next(made for made in yaml.safe_load_all(text) if made["kind"] == "Pod")
    pod["metadata"] = {"name": "standby", "labels": {"app": "standby"}}
    pod["spec"]["containers"][0]["env"] = [{"name": "PRIMARY", "value": "database"}]
    place.kubectl("apply", "--filename=-", stdin=yaml.safe_dump(pod))
    place.kubectl("wait", "--for=condition=Ready", "pod/standby", "--timeout=120s")
    place.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    place.sql("SELECT pg_reload_conf()")
    follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    wait_until(lambda: place.sql(follows).strip() == "1", "the standby follows", seconds=30)


def wait_all_ready(workspace: Workspace, *, seconds: float) -> None:
    """Wait until every runner says that it is ready."""
    wait_until(lambda: all(map(is_ready, workspace.runners())), "every runner is ready", seconds=seconds)


@pytest.mark.parametrize("ending", ["asked to end", "killed"])
def test_a_database_that_starts_again_loses_no_message(place: Place, ending: str) -> None:
    """PostgreSQL ends in mid-turn, also without a word, and comes back with its data: what was accepted is taken."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    sent = burst(workspace, 8)
    if ending == "killed":
        kill(place.site, place.database())
    else:
        place.kubectl("exec", "database", "--", "sh", "-c", "kill -INT 1")
    wait_until(lambda: restarts([place.database()]) == [1], "the database has ended", seconds=60)
    wait_until(lambda: is_ready(place.database()), "the database is back", seconds=60)
    sent |= burst(workspace, 4, prefix="after")
    assert_all_answered(workspace, sent)
    assert restarts(workspace.runners()) == [0, 0]


def test_a_database_that_falls_silent_costs_no_message_and_no_pod(place: Place) -> None:
    """Its sockets stay open and nothing answers: runners say that they are not ready, and go on once it does."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    sent = burst(workspace, 6)
    with paused(place.site, place.database()):
        wait_until(
            lambda: workspace.get()["status"]["readyReplicas"] == 0, "no runner says that it is ready", seconds=90
        )
    workspace.wait_ready()
    assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
    assert restarts(workspace.runners()) == [0, 0]


def test_a_runner_that_is_cut_off_from_the_database_keeps_its_session(place: Place) -> None:
    """Its packets vanish: it says that it is not ready, renews all the same, and goes on once they come through."""
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    wait_all_ready(workspace, seconds=60)
    sessions = {noted(lease, "session") for lease in workspace.leases("session")}
    sent = burst(workspace, 6)
    victim = workspace.runners()[0]
    with dropped(place.site, from_pod(victim, PORT)):
        wait_until(lambda: workspace.get()["status"]["readyReplicas"] == 1, "one says that it is not ready", seconds=90)
        sent |= burst(workspace, 6, prefix="during")
    wait_all_ready(workspace, seconds=30)
    assert_all_answered(workspace, sent | burst(workspace, 4, prefix="after"))
    assert {noted(lease, "session") for lease in workspace.leases("session")} == sessions
    assert restarts(workspace.runners()) == [0, 0]


def test_a_database_that_fails_over_without_a_word_costs_no_message(place: Place) -> None:
    """All packets of the primary vanish, and the Service moves to its standby: every runner goes on there by itself."""
    start_standby(place)
    workspace = place.apply("orders", spec(handler={"echo": {"delaySeconds": TURN_SECONDS}})).wait_ready()
    wait_all_ready(workspace, seconds=60)
    sent = burst(workspace, 12)
    primary = place.database()
    with dropped(place.site, from_pod(primary), to_pod(primary)):
        place.sql("SELECT pg_promote()", "standby")
        place.kubectl("patch", "service", "database", '--patch={"spec": {"selector": {"app": "standby"}}}')
        sent |= burst(workspace, 8, prefix="during")
        wait_all_ready(workspace, seconds=30)
        assert_all_answered(workspace, sent)
        assert restarts(workspace.runners()) == [0, 0]
