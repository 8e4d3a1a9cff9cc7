"""One valkey-server process: start it, ask whether it answers, stop it.

Invariant: a server never outlives the thread that started it (Linux: the kernel signals it), and
only its parent ever signals it, so that no signal can reach a stranger.

Knows nothing of data folders, keepers and locks; tests start standalone, replica, cluster and
Sentinel servers with it. Options go on the command line: Valkey quotes them itself, while a
configuration file would need its quoting rules here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

Address = Path | tuple[str, int]
Setting = str | int | Path | Sequence[str]
Answer = Literal["ready", "loading", "silent"]

DURABILITY: Mapping[str, Mapping[str, Setting]] = {
    "fast": {"appendonly": "yes", "appendfsync": "everysec"},
    "durable": {"appendonly": "yes", "appendfsync": "always"},
}

# A server that takes longer than this to flush and exit is not going to.
GRACE_SECONDS = 10.0

_PR_SET_PDEATHSIG = 1


def options(folder: Path, durability: str) -> dict[str, Setting]:
    """What every server of ours has: append-only file, no snapshots, no eviction."""
    return {
        "dir": folder,
        "save": "",
        "maxmemory-policy": "noeviction",
        "always-show-logo": "no",
        **DURABILITY[durability],
    }


def spawn(
    program: Path,
    settings: Mapping[str, Setting],
    log: Path,
    *,
    config: Path | None = None,
    keep_open: Collection[int] = (),
    die_with_parent: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a server; all it says, from its first word, is appended to `log`.

    With `die_with_parent` it gets SIGTERM when the calling *thread* ends, so call it from one that
    lives long enough.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(program), *([str(config)] if config else []), *_arguments(settings)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(keep_open),
            preexec_fn=_death_with_parent() if die_with_parent else None,
        )


def stop(process: subprocess.Popen[bytes], grace_seconds: float = GRACE_SECONDS) -> None:
    """Let it flush and exit; kill it when it does not. Afterwards it is gone and reaped."""
    process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ping(address: Address, timeout_seconds: float = 0.5) -> Answer:
    """Whether the server at this address serves, still reads its data, or does not answer."""
    reply = _ask(address, b"PING\r\n", timeout_seconds)
    if reply.startswith(b"-LOADING"):
        return "loading"
    # Any other answer, be it BUSY, NOAUTH or MISCONF (disk full), comes from a server that serves.
    return "ready" if reply else "silent"


def ask_to_shut_down(address: Address, timeout_seconds: float = 0.5) -> None:
    """For a server whose parent is gone. It writes out its append-only file before it exits."""
    _ask(address, b"SHUTDOWN NOSAVE\r\n", timeout_seconds)


def _ask(address: Address, command: bytes, timeout_seconds: float) -> bytes:
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection, suppress(OSError):
        connection.settimeout(timeout_seconds)
        connection.connect(str(address) if isinstance(address, Path) else address)
        connection.sendall(command)
        return connection.recv(256)
    return b""


def _arguments(settings: Mapping[str, Setting]) -> list[str]:
    words: list[str] = []
    for name, value in settings.items():
        words.append(f"--{name}")
        words += [str(value)] if isinstance(value, str | int | Path) else map(str, value)
    return words


def _death_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    # Everything is looked up before the fork: afterwards only system calls are safe.
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_the_kernel
