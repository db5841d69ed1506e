"""The command that checks a journal: straight on its database, with no runner, and reading only."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from turnkeeper.cli.exits import ExitCode, errors_told
from turnkeeper.cli.options import AsJson
from turnkeeper.cli.output import say, say_json, visible, wants_json
from turnkeeper.cli.running import Config, Journal, journal_flag
from turnkeeper.core.invariants import Breach, Findings
from turnkeeper.settings import load_settings


def verify(
    config: Config = None,
    *,
    journal: Journal = None,
    workspace: Annotated[str | None, typer.Option(help="Only this workspace. (default: all)")] = None,
    at_rest: Annotated[
        bool,
        typer.Option(
            "--at-rest/--live", help="At rest also nothing may be owed, and every message has its final fate."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that a journal keeps every invariant, and name each breach by thread and seq.

    Reads the database and nothing else, beside runners that work on it.
    Ends with 1 if anything is breached.
    """
    began = time.monotonic()
    with errors_told():
        settings = load_settings(config, {"journal": journal_flag(journal)} if journal is not None else {})
        from turnkeeper import wiring  # noqa: PLC0415 - it loads every part; the other commands start without

        findings = wiring.verify(settings, workspace, at_rest=at_rest)
    _tell(findings, time.monotonic() - began, at_rest=at_rest, is_json=wants_json(as_json))
    if findings.counted:
        raise typer.Exit(ExitCode.FAILED)


def _tell(findings: Findings, seconds: float, *, at_rest: bool, is_json: bool) -> None:
    told = findings.counted.total()
    for breach in findings.kept:
        if is_json:
            say_json(_fields(breach))
        else:
            say(visible(str(breach)))
    checked = {name: getattr(findings, name) for name in ("threads", "entries", "messages", "runs")}
    moment = "at rest" if at_rest else "live"
    if is_json:
        by_name = {name.value: number for name, number in sorted(findings.counted.items())}
        say_json(
            {"checked": moment, **checked, "seconds": round(seconds, 3), "breaches": told, "by_invariant": by_name}
        )
        return
    if told > len(findings.kept):
        say(f"… and {told - len(findings.kept):,} more")
    numbers = ", ".join(f"{number:,} {name}" for name, number in checked.items())
    named = ", ".join(f"{name} {number:,}" for name, number in sorted(findings.counted.items()))
    verdict = f"{told:,} {'breach' if told == 1 else 'breaches'} ({named})" if told else "nothing is breached"
    say(f"checked {moment}: {numbers} in {seconds:.1f} s: {verdict}")


def _fields(breach: Breach) -> dict[str, object]:
    return {
        "invariant": breach.invariant.value,
        "workspace": breach.workspace,
        "thread": breach.thread_id,
        "seq": breach.seq,
        "what": breach.what,
    }
