"""Whether an object in the cluster is as it should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnkeeper.controller.manifests.owned import Owned

NAMELESS = frozenset({"ownerReferences"})
"""Lists of which only the items asked for must be there: others may add their own."""


def differs(owned: Owned, actual: Mapping[str, object]) -> bool:
    """Whether applying would change something, or might: what the server writes in other words counts as different."""
    return not _holds(owned.body, actual)


def _holds(wanted: object, actual: object, name: str = "") -> bool:
    if actual is None and not wanted:
        return True  # the server leaves out what is empty, false or zero
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(_holds(value, actual.get(key), key) for key, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(actual, Sequence) or isinstance(actual, str):
            return False
        if name in NAMELESS:
            return all(any(_holds(item, other) for other in actual) for item in wanted)
        return len(wanted) == len(actual) and all(map(_holds, wanted, actual))
    return wanted == actual
