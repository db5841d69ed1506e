"""The command that prints the Workspace's definition."""

from __future__ import annotations

from typing import Annotated

import typer

from turnkeeper.cli.output import say

Chart = Annotated[bool, typer.Option("--chart", help="Print the chart's template: it is kept at uninstall.")]


def crd(*, chart: Chart = False) -> None:
    """Print the Workspace's CustomResourceDefinition, for kubectl apply."""
    from turnkeeper.settings.workspace_crd import chart_text, crd_text  # noqa: PLC0415 - only this command needs it

    say((chart_text() if chart else crd_text()).rstrip("\n"))
