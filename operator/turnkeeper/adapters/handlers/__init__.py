"""What a turn does, five ways: `echo`, `python`, `exec`, `http` and `chat`; each keeps the door `ports.Handler`.

They take plain values, so that what is configured where is no matter of theirs. They know nothing of claims, journals
and runners: what reaches them is one run of one turn, and what they owe is an answer, questions or an error.
"""

from turnkeeper.adapters.handlers.chat import ChatHandler
from turnkeeper.adapters.handlers.echo import EchoHandler
from turnkeeper.adapters.handlers.exec import ExecHandler
from turnkeeper.adapters.handlers.http import HttpHandler
from turnkeeper.adapters.handlers.python import PythonHandler

__all__ = ["ChatHandler", "EchoHandler", "ExecHandler", "HttpHandler", "PythonHandler"]
