"""The API tokens of a Workspace: read from the Secret that it names, or made once in one of its own."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from turnkeeper.adapters.kube.api import KubeApi
from turnkeeper.adapters.kube.resources import SECRETS
from turnkeeper.controller.conditions import Problem
from turnkeeper.controller.manifests import Names
from turnkeeper.controller.manifests.owned import tokens_secret
from turnkeeper.errors import KubeConflictError, KubeNotFoundError
from turnkeeper.settings import AuthSettings
from turnkeeper.settings.workspace import WorkspaceSpec
from turnkeeper.settings.workspace_parts import SecretKey

MARK_LETTERS: Final = 8
"""Of the tokens' hash, in the pods' annotation: enough to see a change, too little to try tokens out against."""

_AUTH: Final = TypeAdapter(AuthSettings)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The first of a Workspace's tokens, and something that changes with any of them."""

    first: str
    mark: str


async def tokens_of(api: KubeApi, names: Names, spec: WorkspaceSpec) -> Tokens | Problem:
    """Return a Workspace's tokens; where it names no Secret and there is none yet, one is made."""
    at = tokens_secret(names, spec)
    try:
        secret = await api.get(SECRETS, names.namespace, at.name)
    except KubeNotFoundError:
        if spec.auth.tokens_secret_ref is not None:
            message = (
                f"The Secret {at.name}, which spec.auth.tokensSecretRef names, is not there. Make it, with API tokens"
            )
            return Problem("TokensMissing", f"{message} (16 characters or more, separated by commas) under {at.key}.")
        secret = await _made(api, names, at)
    return _read(secret, at)


async def _made(api: KubeApi, names: Names, at: SecretKey) -> dict[str, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": names.metadata(at.name),
        "type": "Opaque",
        "stringData": {at.key: secrets.token_hex(32)},
    }
    try:
        return await api.create(SECRETS, names.namespace, body)
    except KubeConflictError:  # a lost answer's own doing, or another's: what stands is what counts
        return await api.get(SECRETS, names.namespace, at.name)


def _read(secret: dict[str, Any], at: SecretKey) -> Tokens | Problem:
    raw = (secret.get("data") or {}).get(at.key)
    if raw is None:
        return Problem("TokensMissing", f"The Secret {at.name} has no key {at.key}. Put the API tokens there.")
    text = ""
    try:
        text = base64.b64decode(raw).decode().strip()
        found = _AUTH.validate_python({"tokens": text}).tokens
    except (binascii.Error, UnicodeDecodeError, ValidationError):
        found = ()
    if not found:
        message = (
            f"The key {at.key} of the Secret {at.name} holds no tokens: 16 to 4096 visible ASCII characters each, "
        )
        return Problem("TokensUnfit", message + "separated by commas, for example from: openssl rand -hex 32.")
    mark = hashlib.sha256(text.encode()).hexdigest()[:MARK_LETTERS]
    return Tokens(found[0].get_secret_value(), mark)
