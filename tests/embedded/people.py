"""Who takes part in these tests: users in processes of their own, and what runs in a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from holdfast.embedded import locks, record
from holdfast.embedded.folder import Folder
from holdfast.embedded.record import Record
from tests.servers import wait_until

_JOIN_AND_STAY = """
import sys
from pathlib import Path
from holdfast import embedded
with embedded.join(Path(sys.argv[1])) as membership:
    print(membership.url, flush=True)
    sys.stdin.read()
"""


class User:
    """A process that joins a data folder and stays until told to leave."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _JOIN_AND_STAY, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def joined(self) -> str:
        """The URL, once it is in."""
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        assert url.startswith("unix://"), f"could not join: {url!r}"
        return url

    def leave(self) -> None:
        """Asks it to leave and waits until it has."""
        self.process.communicate(timeout=10)
        assert self.process.returncode == 0

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.communicate(timeout=10)

    def __enter__(self) -> User:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()


def script(source: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A small program in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def processes_of(home: Path) -> list[int]:
    """The keeper and the server of a folder: both work inside it."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            # A folder that was removed is shown as "… (deleted)".
            if str((process / "cwd").readlink()).removesuffix(" (deleted)") == str(home):
                found.append(int(process.name))
        except OSError:  # gone, or a zombie
            continue
    return sorted(found)


def running(home: Path) -> Record:
    """The record of the server that runs there now."""
    folder = Folder(home)
    assert locks.is_held(folder.keeper_lock), "no keeper runs"
    found = record.read(folder)
    assert found is not None
    return found


def keeper_pid(home: Path) -> int:
    pid = running(home).keeper_pid
    assert pid in processes_of(home)
    return pid


def server_pid(home: Path) -> int:
    pid = running(home).server_pid
    assert pid in processes_of(home)
    return pid


def kill_9(pid: int) -> None:
    """Kill it and wait until the kernel has done so; it is no child of ours, so do not reap it."""
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        wait_until(lambda: is_dead(pid), 5, f"{pid} dead")
    finally:
        os.close(handle)


def is_dead(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def ask(url: str, *words: str | int) -> Any:
    """The answer to one command, over a connection of its own."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return client.execute_command(*words)


def answers(url: str) -> bool:
    try:
        return bool(ask(url, "PING"))
    except redis.ConnectionError:
        return False


def wait_until_gone(home: Path) -> None:
    wait_until(lambda: not processes_of(home), 10, f"keeper and server of {home} gone")


def stays_true(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether nothing happens for a while: several looks of the keeper."""
    try:
        wait_until(lambda: not condition(), seconds)
    except AssertionError:
        return True
    return False


def edit_record(home: Path, **changes: object) -> None:
    path = Folder(home).record
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
