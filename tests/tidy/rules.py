"""The rules of style that no linter knows, each a function from a file to its breaches.

A breach is one line: where, and what to do about it. Nothing here looks for files or knows of exceptions: the tests
beside it do, over the whole tree and over small planted breaches.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

CORE_LINES = 200
"""What fits in one's head at once; the core is what must."""

FILE_LINES = 300
"""Arbitrary: a file that outgrows it holds two nouns."""

FUNCTION_LINES = 60
"""About a screen, without the docstring: a promise is not cut short to fit."""

REASON_LETTERS = 10
"""Arbitrary: shorter than this is a word, no reason."""

CORE = "operator/turnkeeper/core/"

EMPTY_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
"""Module names that say nothing about what is inside, so that anything goes in."""

IMPURE_MODULES = {"asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
IMPURE_NAMES = {"input", "now", "open", "print", "today", "urandom", "utcnow", "uuid1", "uuid4"}
"""A call of one of these sees a clock, chance or the machine, by whatever name its module goes."""

FOLDERS_OF_ONE_MACHINE = re.compile(r"(?<![\w.~$}/-])/(?:work|root|home|tmp|Users)\b(?=/|[\s\"'`),;:]|$)")
REGISTRY_HOSTS = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|crates\.io|proxy\.golang\.org|repo1?\.maven(?:\.apache)?\.org"
    r"|(?:deb|security)\.debian\.org|registry\.yarnpkg\.com)\b"
)
INDEX_OPTION = re.compile(r"^\s*(?:-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)\b", re.MULTILINE)

CODES = r"(?P<codes>:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)?"
SILENCERS = re.compile(rf"(?:ruff:\s*)?noqa\b{CODES}|type:\s*ignore(?P<ignored>\[[^\]]+\])?")


@dataclass(frozen=True)
class Source:
    """A file's text under its path from the root of the working tree."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file; only of a Python file."""
        return ast.parse(self.text, self.path)

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return self.text.count("\n")

    @property
    def line_limit(self) -> int:
        """How many lines it may have."""
        return CORE_LINES if self.path.startswith(CORE) else FILE_LINES


def too_long_file(source: Source) -> Iterator[str]:
    """A file is one noun: up to 200 lines in the core, 300 elsewhere."""
    if source.lines > source.line_limit:
        yield f"{source.path}: {source.lines} lines, of {source.line_limit}: find the two nouns in it"


def too_long_functions(source: Source) -> Iterator[str]:
    """A function's code, its docstring not counted, fits on a screen."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            has_docstring = ast.get_docstring(node, clean=False) is not None
            docstring_lines = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
            length = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines
            if length > FUNCTION_LINES:
                yield f"{source.path}:{node.lineno}: {node.name} has {length} lines, of {FUNCTION_LINES}"


def empty_names(source: Source) -> Iterator[str]:
    """A module or folder is named for what it holds."""
    words = {word for part in PurePosixPath(source.path).with_suffix("").parts for word in part.split("_")}
    for name in sorted(words & EMPTY_NAMES):
        yield f"{source.path}: {name!r} says nothing about what is inside"


def impure_core(source: Source) -> Iterator[str]:
    """The core is values in, values out: no clock, chance, file, log or waiting."""
    if not source.path.startswith(CORE):
        return
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for node in ast.walk(source.tree):
        if isinstance(node, waits):
            yield f"{source.path}:{node.lineno}: the core waits for nothing"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = {alias.name for alias in node.names} if isinstance(node, ast.Import) else {node.module or ""}
            for module in sorted(modules):
                if module.split(".")[0] in IMPURE_MODULES:
                    yield f"{source.path}:{node.lineno}: the core does not import {module}"
        elif isinstance(node, ast.Call):
            *of, name = _dotted(node.func)
            if name in IMPURE_NAMES or (of and of[0] in IMPURE_MODULES):
                yield f"{source.path}:{node.lineno}: the core does not call {'.'.join([*of, name])}"


def sleeping_tests(source: Source) -> Iterator[str]:
    """A test waits for what it is about, never for time to pass.

    `asyncio.sleep(0)` only yields, and a module marked `looptime` sleeps in virtual time.
    """
    if not source.path.startswith("tests/"):
        return
    virtual = re.search(r"^pytestmark\s*=.*\bpytest\.mark\.looptime\b", source.text, re.MULTILINE) is not None
    direct = {
        alias.asname or alias.name: node.module
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module in {"asyncio", "time"}
        for alias in node.names
        if alias.name == "sleep"
    }
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        *of, name = _dotted(node.func)
        module = direct.get(name) if not of else (of[-1] if name == "sleep" else None)
        yields = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        if module == "time" or (module in {"asyncio", "anyio"} and not yields and not virtual):
            yield f"{source.path}:{node.lineno}: {module}.sleep: wait for what the test is about"


def unreasoned_silencers(source: Source) -> Iterator[str]:
    """Each `noqa` and `type: ignore` names its code and says why, on its line."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        found = list(SILENCERS.finditer(token.string))
        if not found:
            continue
        where = f"{source.path}:{token.start[0]}"
        if not all(match["codes"] or match["ignored"] for match in found):
            yield f"{where}: {found[0][0]} names no code"
        if len(re.findall(r"[^\W\d_]", SILENCERS.sub("", token.string))) < REASON_LETTERS:
            yield f"{where}: {found[0][0]} gives no reason"


def unsaid_errors(source: Source) -> Iterator[str]:
    """An exception's name ends in Error; an outcome that is expected is a value, and its name does not."""
    exceptions = {"BaseException", "Exception"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            bases = [_dotted(base)[-1] for base in node.bases]
            is_exception = any(base in exceptions or base.endswith("Error") for base in bases)
            if is_exception:
                exceptions.add(node.name)
            if is_exception and not node.name.endswith("Error"):
                yield f"{source.path}:{node.lineno}: the exception {node.name} does not end in Error"
            elif node.name.endswith("Error") and not is_exception:
                yield f"{source.path}:{node.lineno}: {node.name} ends in Error and is no exception"


def one_machine(source: Source) -> Iterator[str]:
    """What is committed holds on every machine: no folder of this one, no registry's host, no index in a lock."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        for pattern in (FOLDERS_OF_ONE_MACHINE, REGISTRY_HOSTS):
            if found := pattern.search(line):
                yield f"{source.path}:{number}: {found[0]} is of one machine or one registry"
    if source.path.endswith(".lock") and (found := INDEX_OPTION.search(source.text)):
        yield f"{source.path}: {found[0].strip()} says where from; a lock says only what"


def _dotted(node: ast.expr) -> list[str]:
    """The parts of `a.b.c`; an empty name stands for whatever else is called."""
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    if isinstance(node, ast.Subscript):
        return _dotted(node.value)
    return [node.id] if isinstance(node, ast.Name) else [""]


PYTHON_RULES = (
    too_long_file,
    too_long_functions,
    empty_names,
    impure_core,
    sleeping_tests,
    unreasoned_silencers,
    unsaid_errors,
)
TEXT_RULES = (one_machine,)
