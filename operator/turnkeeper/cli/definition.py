"""The command that prints the Workspace's definition."""

from __future__ import annotations

from typing import Annotated

import typer

from turnkeeper.cli.output import say

Chart = Annotated[bool, typer.Option("--chart", help="Print the chart's template: it is kept at uninstall.")]
Reference = Annotated[bool, typer.Option("--reference", help="Print the page that tells of each field.")]


def crd(*, chart: Chart = False, reference: Reference = False) -> None:
    """Print the Workspace's CustomResourceDefinition, for kubectl apply."""
    from turnkeeper.settings.workspace_crd import chart_text, crd_text  # noqa: PLC0415 - only this command needs it
    from turnkeeper.settings.workspace_reference import reference_text  # noqa: PLC0415 - only this command needs it

    text = reference_text() if reference else chart_text() if chart else crd_text()
    say(text.rstrip("\n"))
