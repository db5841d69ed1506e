"""Each rule finds a planted breach, and lets pass what looks like one."""

import pytest

from tests.tidy import rules
from tests.tidy.rules import Source
from tests.tidy.test_tree import Rule

CORE = "operator/turnkeeper/core/claim.py"
TEST = "tests/runner/test_turns.py"
SIXTY_ONE = "def long() -> None:\n" + "    pass\n" * 60
FOLDER = "/wo" + "rk/main"  # in two parts, so that this file keeps the rule itself
HOST = "pypi" + ".org"

BREACHES: list[tuple[Rule, str, str]] = [
    (rules.too_long_file, CORE, "\n" * 201),
    (rules.too_long_file, "bench/run.py", "\n" * 301),
    (rules.too_long_functions, CORE, SIXTY_ONE),
    (rules.too_long_functions, CORE, "async " + SIXTY_ONE),
    (rules.empty_names, "operator/turnkeeper/utils.py", ""),
    (rules.empty_names, "operator/turnkeeper/runner/session_manager.py", ""),
    (rules.empty_names, "tests/common/clock.py", ""),
    (rules.impure_core, CORE, "import time\n"),
    (rules.impure_core, CORE, "from os import environ\n"),
    (rules.impure_core, CORE, "import asyncio.locks\n"),
    (rules.impure_core, CORE, "x = datetime.datetime.now(tz)\n"),
    (rules.impure_core, CORE, "x = uuid4()\n"),
    (rules.impure_core, CORE, "x = open('file')\n"),
    (rules.impure_core, CORE, "x = random.random()\n"),
    (rules.impure_core, CORE, "async def f(): pass\n"),
    (rules.sleeping_tests, TEST, "await asyncio.sleep(1)\n"),
    (rules.sleeping_tests, TEST, "time.sleep(0)\n"),
    (rules.sleeping_tests, TEST, "from time import sleep as nap\nnap(1)\n"),
    (rules.sleeping_tests, TEST, "pytestmark = pytest.mark.looptime\ntime.sleep(1)\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # noqa\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # noqa: E501\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # noqa because of the other thing\n"),
    (rules.unreasoned_silencers, CORE, "# ruff: noqa: E501\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # type: ignore[misc]\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # type: ignore  # the library has no types\n"),
    (rules.unsaid_errors, CORE, "class Refused(Exception): pass\n"),
    (rules.unsaid_errors, CORE, "class RefusedError(ValueError): pass\nclass Late(RefusedError): pass\n"),
    (rules.unsaid_errors, CORE, "class BusyError: pass\n"),
    (rules.one_machine, "README.md", f"cd {FOLDER}\n"),
    (rules.one_machine, "Makefile", f"x: {FOLDER}\n"),
    (rules.one_machine, ".ci/run", f"pip install --index-url https://{HOST}/simple\n"),
    (rules.one_machine, "requirements.lock", "-f wheels\n"),
]

NO_BREACHES: list[tuple[Rule, str, str]] = [
    (rules.too_long_file, CORE, "\n" * 200),
    (rules.too_long_file, "bench/run.py", "\n" * 300),
    (rules.too_long_functions, CORE, "def f() -> None:\n    '''" + "\n" * 70 + "    '''\n"),
    (rules.empty_names, "operator/turnkeeper/core/claim.py", ""),
    (rules.impure_core, CORE, "import datetime\nx = state.evolve(now=1)\ny = [f(1) for f in g()]\n"),
    (rules.impure_core, "operator/turnkeeper/runner/turns.py", "import asyncio\nasync def f(): pass\n"),
    (rules.sleeping_tests, TEST, "await asyncio.sleep(0)\n"),
    (rules.sleeping_tests, TEST, "pytestmark = [pytest.mark.looptime]\nawait asyncio.sleep(3600)\n"),
    (rules.sleeping_tests, "operator/turnkeeper/runner/turns.py", "await asyncio.sleep(1)\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # noqa: E501 - a link cannot be broken\n"),
    (rules.unreasoned_silencers, CORE, "x = 1  # type: ignore[misc]  # the library has no types\n"),
    (rules.unreasoned_silencers, CORE, "x = '# noqa'\n"),
    (rules.unsaid_errors, CORE, "class RefusedError(Exception): pass\nclass Conflict: pass\n"),
    (rules.one_machine, "README.md", "POST /v1/threads; see example.org; mix/work/in; {$HOME}/work\n"),
    (rules.one_machine, "requirements.lock", "httpx==0.28.1 --hash=sha256:00\n"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BREACHES)
def test_a_planted_breach_is_found(rule: Rule, path: str, text: str) -> None:
    """A rule that finds nothing proves nothing."""
    assert list(rule(Source(path, text))) != []


@pytest.mark.parametrize(("rule", "path", "text"), NO_BREACHES)
def test_what_keeps_the_rule_passes(rule: Rule, path: str, text: str) -> None:
    """A rule that cries wolf is soon silenced."""
    assert list(rule(Source(path, text))) == []
