"""From a Workspace to the objects that it owns. Pure: the same Workspace gives the same objects, byte for byte."""

from __future__ import annotations

from turnkeeper.controller.manifests.names import Names
from turnkeeper.controller.manifests.owned import Given, Owned, owned_by

__all__ = ["Given", "Names", "Owned", "owned_by"]
