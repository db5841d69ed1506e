"""What the controller tells a runner's pod and the runner reads there: ports, paths and the environment's names."""

from __future__ import annotations

from typing import Final

API_PORT: Final = 8765
PROBE_PORT: Final = 8766
PEER_PORT: Final = 8767

SETTINGS_FILE: Final = "/etc/turnkeeper/settings.yaml"

POD_NAME: Final = "TURNKEEPER_POD_NAME"
POD_UID: Final = "TURNKEEPER_POD_UID"
POD_ADDRESS: Final = "TURNKEEPER_POD_ADDRESS"
NAMESPACE: Final = "TURNKEEPER_POD_NAMESPACE"
WORKSPACE_NAME: Final = "TURNKEEPER_WORKSPACE_NAME"

JOURNAL_AWAY: Final = "the journal can't be reached"
"""How a reason begins by which a runner is not ready for want of its journal."""
