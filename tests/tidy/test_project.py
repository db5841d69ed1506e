"""The project's own files say what they are meant to: its layout, its locks, the reasons in its settings."""

import operator
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import turnkeeper

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.lock", "requirements-kubernetes.lock", "requirements-dev.lock", "requirements-build.lock")

Pins = dict[str, str]


def pyproject() -> dict[str, Any]:
    """The project's settings as a value."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pins(lock: str) -> Pins:
    """The exact version of each package in a lock."""
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", (ROOT / lock).read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def unmet(requirements: list[str], locked: Pins) -> list[str]:
    """The requirements that a lock's pins do not meet."""
    wanted = [Requirement(requirement) for requirement in requirements]
    return [
        str(one)
        for one in wanted
        if not one.specifier.contains(locked.get(canonicalize_name(one.name), "0"), prereleases=True)
    ]


def unhashed(text: str) -> list[str]:
    """The pins of a lock that any file of that name and version would meet."""
    blocks = re.findall(r"^\S+==.*(?:\n[ \t]+.*)*", text, re.MULTILINE)
    return [block.split()[0] for block in blocks if "--hash=sha256:" not in block]


def unexplained(text: str) -> Iterator[str]:
    """The codes that pyproject.toml tells ruff to let pass without saying why."""
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line
        elif section.startswith("[tool.ruff.lint"):
            silenced = re.match(r'\s*"([A-Z]+\d*)",?|.*= \["[A-Z]+\d*"', line)
            if silenced and not re.search(r"#\s*\w+", line) and "select" not in line:
                yield line.strip()


def test_the_source_root_is_no_package() -> None:
    """`operator/__init__.py` would shadow the standard library's `operator` wherever the root is on the path."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert Path(turnkeeper.__file__).parent == ROOT / "operator" / "turnkeeper"
    assert (ROOT / "operator" / "turnkeeper" / "py.typed").exists()


def test_the_standard_library_keeps_its_operator() -> None:
    """With the root first on the path, as `python -m` puts it, `import operator` still finds the standard library's."""
    assert operator.itemgetter(0)("a") == "a"
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import operator; print(operator.__file__)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert Path(found.strip()) == Path(sysconfig.get_path("stdlib")) / "operator.py"


def test_the_version_is_said_once() -> None:
    """The installed package, its module and pyproject.toml agree; where not, `make setup` has not run."""
    assert turnkeeper.__version__ == pyproject()["project"]["version"]


def test_the_locks_meet_what_is_declared() -> None:
    """Whoever adds a dependency also runs `make lock`."""
    settings = pyproject()
    runtime, development = settings["project"]["dependencies"], settings["dependency-groups"]["dev"]
    assert unmet(runtime, pins("requirements.lock")) == []
    cluster = runtime + settings["project"]["optional-dependencies"]["kubernetes"]
    assert unmet(cluster, pins("requirements-kubernetes.lock")) == []
    assert unmet(cluster + development, pins("requirements-dev.lock")) == []
    assert unmet(settings["dependency-groups"]["build"], pins("requirements-build.lock")) == []
    assert unmet(["turnkeeper-never>=1"], pins("requirements.lock")) != []


def test_the_locks_agree() -> None:
    """Tests run on the versions that users get."""
    development = pins("requirements-dev.lock")
    for lock in LOCKS:
        differing = {name: version for name, version in pins(lock).items() if development.get(name, version) != version}
        assert differing == {}
    assert pins("requirements.lock").items() <= pins("requirements-kubernetes.lock").items() <= development.items()


@pytest.mark.parametrize("lock", LOCKS)
def test_each_pin_has_its_hash(lock: str) -> None:
    """A lock says which bytes, not only which name."""
    assert len(pins(lock)) > 1
    assert unhashed((ROOT / lock).read_text("utf-8")) == []


def test_a_pin_without_hash_is_found() -> None:
    """The check above can fail."""
    assert unhashed("a==1 \\\n    --hash=sha256:00\nb==2\n") == ["b==2"]


def test_each_exception_from_the_linter_has_a_reason() -> None:
    """An exception list only shrinks when each line says what would have to change."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert list(unexplained(text)) == []
    planted = text.replace("ignore = [", 'ignore = [\n    "E501",', 1)
    assert list(unexplained(planted)) == ['"E501",']
