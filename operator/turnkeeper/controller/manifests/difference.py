"""Whether an object in the cluster is as it should be, and what makes it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnkeeper.controller.manifests.owned import Owned

NAMELESS = frozenset({"ownerReferences"})
"""Lists of which only the items asked for must be there: others may add their own."""

EXACT = frozenset({"selector", "matchLabels"})
"""Maps in which one key more is another meaning."""


def differs(owned: Owned, actual: Mapping[str, object]) -> bool:
    """Whether applying would change something, or might: what the server writes in other words counts as different."""
    return not _holds(owned.body, actual)


def overlay(owned: Owned, actual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that makes an object what it should be: lists as a whole, keys too many as null."""
    return _overlaid(owned.body, actual, "")


def _holds(wanted: object, actual: object, name: str = "") -> bool:
    if actual is None and not wanted:
        return True  # the server leaves out what is empty, false or zero
    if isinstance(wanted, Mapping):
        if not isinstance(actual, Mapping) or (name in EXACT and actual.keys() - wanted.keys()):
            return False
        return all(_holds(value, actual.get(key), key) for key, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(actual, Sequence) or isinstance(actual, str):
            return False
        if name in NAMELESS:
            return all(any(_holds(item, other) for other in actual) for item in wanted)
        return len(wanted) == len(actual) and all(map(_holds, wanted, actual))
    return wanted == actual


def _overlaid(wanted: Mapping[str, Any], actual: Mapping[str, Any], name: str) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(actual.keys() - wanted.keys()) if name in EXACT else {}
    for key, value in wanted.items():
        there = actual.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            patch[key] = _overlaid(value, there, key)
        else:
            patch[key] = value
    return patch
