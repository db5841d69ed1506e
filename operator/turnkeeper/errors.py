"""Every error that turnkeeper raises on purpose.

Expected outcomes (busy, refused, nothing owed) are values, not errors: they live in `turnkeeper.core`. An error here
means that the caller asked for something that can't be, or that a part the promise rests on can't be reached. The text
of each is written for the person who reads it: what happened, to which thread, what to do.

    TurnkeeperError
    ├── InvalidInputError        the caller's input breaks a documented rule; nothing was recorded
    │   ├── InvalidIdError
    │   ├── InvalidContentError
    │   └── TooLargeError
    ├── NotFoundError            what was named does not exist
    ├── StandsOtherwiseError     what was asked can't be any more: something else stands, and is named
    │   └── KubeConflictError
    ├── UnavailableError         a part can't be reached now; nothing is known to have been recorded
    │   ├── UnknownOutcomeError  it may or may not have been recorded: ask again under the same id
    │   ├── KubeNotFoundError    the API server knows no such object
    │   ├── KubeRefusedError     the API server does not allow it, or not like this, until somebody changes something
    │   └── KubeGoneError        what a list or watch would go on from is too old: list afresh
    ├── ClosedError              this runner takes nothing any more
    ├── SettingsError            the configuration can't be used
    └── HandlerError             a handler broke its contract; it costs that handler's run, nothing else
        └── LostRunError         the run is not this handler's any more: its claim or its session is gone
"""

from __future__ import annotations


class TurnkeeperError(Exception):
    """The root of every error that turnkeeper raises on purpose."""


class InvalidInputError(TurnkeeperError):
    """The caller's input breaks a documented rule; nothing was recorded (HTTP 422)."""


class InvalidIdError(InvalidInputError):
    """A thread, message or question id breaks the rule that the text states."""


class InvalidContentError(InvalidInputError):
    """A JSON value can't be kept without loss; the text says which part and why."""


class TooLargeError(InvalidInputError):
    """A JSON value is over the stated limit (HTTP 413)."""


class NotFoundError(TurnkeeperError):
    """What was named does not exist (HTTP 404)."""


class StandsOtherwiseError(TurnkeeperError):
    """What was asked can't be any more (HTTP 409); `stands` names what does.

    For example a stop that came after the run's end, or a second answer to a question.
    """

    def __init__(self, message: str, stands: str) -> None:
        super().__init__(message)
        self.stands = stands


class UnavailableError(TurnkeeperError):
    """A part that is needed can't be reached now (HTTP 503); asking again later is right.

    `retry_after_seconds`: what the part itself asked for, or None.
    """

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class UnknownOutcomeError(UnavailableError):
    """The answer to a write was lost: it may or may not have been recorded. Ask again under the same id."""


class KubeNotFoundError(UnavailableError):
    """The Kubernetes object, or the namespace that it would be in, does not exist; the API server itself says so.

    Whoever asks for what may be absent expects it. Where nobody did, a part that is needed is missing; to a caller of
    the HTTP API that is no "not found", which would tell that his thread or run does not exist.
    """


class KubeConflictError(StandsOtherwiseError):
    """The Kubernetes object exists already, or is not at the version that the write was for.

    `stands` is the API server's reason: `AlreadyExists` or `Conflict`.
    """


class KubeRefusedError(UnavailableError):
    """The API server refuses (401, 403, 400, 422); the text names the right or the field. Nothing was recorded.

    Asking again is right in so far as somebody may grant the right meanwhile. `status` is the HTTP status.
    """

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class KubeGoneError(UnavailableError):
    """The version that a list or a watch would go on from is no longer kept (410): list afresh, watch from there."""


class ClosedError(TurnkeeperError):
    """The runner is stopping or closed and takes nothing more (HTTP 503)."""


class SettingsError(TurnkeeperError):
    """The configuration can't be used; the text names the setting and what would do."""


class HandlerError(TurnkeeperError):
    """A handler broke its contract, or reported a failure of its own; the run ends `failed` with this text."""


class LostRunError(HandlerError):
    """The run is not this handler's any more: its claim was taken over or its session is gone."""
