"""What a turn does, as a Workspace says it: the handlers of `settings.models`, with their secrets in Secrets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from turnkeeper.settings.workspace_parts import Part, SecretKey, Url, exactly_one, rules

COMMAND_MAX = 30_000
PROMPT_MAX = 32_768
"""Characters. A pod's annotations hold 256 KiB in all, and a character may take 4 bytes; what is larger belongs into
the image."""

PYTHON_NAME = "[A-Za-z_][A-Za-z0-9_]*"
ENTRY_POINT = f"^{PYTHON_NAME}(\\.{PYTHON_NAME})*:{PYTHON_NAME}(\\.{PYTHON_NAME})*$"
HEADER = "^[ -~]+$"
HEADERS = rules(
    ("self.all(name, name.size() <= 200 && name.matches('^[-!#$%&*+.^_`|~0-9A-Za-z]+$'))", "a header has no such name")
)
VARIABLES = rules(
    (
        "self.all(name, name.size() <= 200 && name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
        "a variable's name has letters, digits and _ only",
    )
)


class EchoHandler(Part):
    """Answers with what was sent: to try a Workspace out."""

    delay_seconds: float = Field(0.0, ge=0, le=3600, description="How long it waits before it answers.")


class PythonHandler(Part):
    """Calls a coroutine function in the runner's process; the image must hold it."""

    entry_point: str = Field(
        max_length=4096, pattern=ENTRY_POINT, description="The function, as module:name, such as my_agent.turns:turn."
    )
    search_path: list[Annotated[str, Field(min_length=1, max_length=1024)]] = Field(
        [], max_length=20, description="Folders to look for the module in, besides the image's own."
    )


class ExecHandler(Part):
    """Runs a command for each turn: JSON lines in, JSON lines out; the image must hold it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.command.join('').size() <= {COMMAND_MAX}",
                f"a command has up to {COMMAND_MAX} characters in all: put a longer script into the image",
            ),
        )
    )

    command: list[Annotated[str, Field(max_length=COMMAND_MAX)]] = Field(
        min_length=1, max_length=50, description="The program and its arguments. No shell reads them."
    )
    environment: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        {},
        max_length=20,
        description="Variables besides the runner's own; runner.env takes more.",
        json_schema_extra=VARIABLES,
    )
    directory: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="Where it runs. The runner's own folder if not set."
    )
    kill_grace_seconds: float = Field(5.0, ge=0, le=600, description="From SIGTERM to SIGKILL, as a run is cancelled.")


class HttpHandler(Part):
    """POSTs each turn to a server and reads its events from the answer."""

    url: Url = Field(description="Where to.")
    headers: dict[str, Annotated[str, Field(max_length=4096, pattern=HEADER)]] = Field(
        {}, max_length=20, description="Headers of each request.", json_schema_extra=HEADERS
    )
    timeout_seconds: float = Field(
        60.0, gt=0, le=86_400, description="The longest silence of the server before the run fails."
    )


class ChatHandler(Part):
    """Asks an OpenAI-compatible server, with the thread as the conversation."""

    base_url: Url = Field(description="The server's base URL, such as http://models:8000/v1.")
    model: str = Field(min_length=1, max_length=4096, description="The model's name there.")
    api_key_secret_ref: SecretKey | None = Field(None, description="The key that the server asks for, in a Secret.")
    system_prompt: str = Field("", max_length=PROMPT_MAX, description="What the conversation begins with.")
    temperature: float | None = Field(None, ge=0, le=2, description="Handed on to the server, if set.")
    history_limit: int = Field(200, ge=0, le=10_000, description="How many earlier entries are sent along.")


HANDLERS = ("python", "exec", "http", "chat", "echo")


class HandlerSpec(Part):
    """What a turn does: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=rules(exactly_one(HANDLERS)))

    python: PythonHandler | None = Field(None, description="Call a coroutine function in the runner's process.")
    exec: ExecHandler | None = Field(None, description="Run a command for each turn.")
    http: HttpHandler | None = Field(None, description="POST each turn to a server.")
    chat: ChatHandler | None = Field(None, description="Ask an OpenAI-compatible server.")
    echo: EchoHandler | None = Field(None, description="Answer with what was sent.")

    @property
    def kind(self) -> str:
        """Which one is set."""
        return next(name for name in HANDLERS if getattr(self, name) is not None)

    def settings(self) -> dict[str, Any]:
        """Return it as the runner's settings have it, without what is secret."""
        chosen: Part = getattr(self, self.kind)
        return {self.kind: chosen.model_dump(mode="json", exclude={"api_key_secret_ref"}, exclude_none=True)}
