"""Makes sure that a data folder has a server that answers; the caller holds users.lock.

Who gets keeper.lock starts a keeper and hands the locked descriptor down to it, so the lock passes
to the keeper without a gap: of any number that try at once exactly one starts a server. The
others look until the record says ready; should the starter die on the way, the lock is free and
one of them takes over.

Invariant: returns only what answered a PING while its keeper lived.
Rejected: a second lock around starting, with a pipe to report through. The hand-over needs neither.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeGuard

from holdfast.embedded import locks, log, record, server
from holdfast.embedded.folder import Folder
from holdfast.embedded.record import Record
from holdfast.embedded.wheel import binary
from holdfast.errors import InvalidArgument, Unavailable, Unsupported

DEFAULT_DURABILITY = "durable"

# For a server that neither answers nor says that it is loading. Loading may take any time.
SILENCE_SECONDS = 60.0


def ensure_running(folder: Folder, durability: str | None, *, again: bool = False) -> Record:
    """The record of a server that answers, started here if need be.

    `again`: only what crashed is started; what was stopped on purpose stays stopped.
    """
    logged: int | None = None  # the log's size when we started a keeper
    deadline = time.monotonic() + SILENCE_SECONDS
    while True:
        with locks.exclusive(folder.keeper_lock) as lock:
            if lock is not None:
                if logged is not None:
                    raise _died(folder, logged)
                if again:
                    _check_it_crashed(folder)
                logged = _start_keeper(folder, durability or DEFAULT_DURABILITY, lock)
        found = record.read(folder)
        if _answers(found):
            _check_durability(folder, found, durability)
            return found
        if found is not None and found.state == "loading":
            deadline = time.monotonic() + SILENCE_SECONDS
        if time.monotonic() > deadline:
            raise Unavailable(
                f"the embedded server in {folder.path} has not answered for "
                f"{SILENCE_SECONDS:.0f} s; see {folder.log}, or stop it with `holdfast down`"
            )
        time.sleep(locks.POLL_SECONDS)


def evict_orphan(folder: Folder) -> bool:
    """End a server whose keeper was killed; whether there was one. The caller holds keeper.lock.

    On Linux it is dying already. It is asked over its own socket, not by pid; while server.lock
    is held the socket in the record is its.
    """
    left = record.read(folder)
    lock = locks.open_lock(folder.server_lock)
    try:
        if locks.try_lock(lock):
            return False
        deadline = time.monotonic() + server.GRACE_SECONDS
        while not locks.lock_within(lock, 0.5):
            if left is not None:
                server.ask_to_shut_down(Path(left.socket))
            if time.monotonic() > deadline:
                pid = left.server_pid if left is not None else None
                raise Unavailable(
                    f"an earlier server (pid {pid}) still uses the data folder {folder.path} and "
                    "does not end: its keeper was killed and it does not answer; end that process"
                )
        return True
    finally:
        os.close(lock)


def _start_keeper(folder: Folder, durability: str, lock: int) -> int:
    from holdfast.embedded import damage  # who joins what runs need not pay for it

    program = binary()
    evict_orphan(folder)
    damage.check(folder)
    socket = folder.socket()
    socket.unlink(missing_ok=True)
    logged = log.size(folder.log)
    record.write(folder, Record(os.urandom(8).hex(), "starting", durability, str(socket)))
    if not sys.executable:
        raise Unsupported(
            "cannot start the embedded server: this Python does not know its own executable; "
            "start it with `holdfast up`, or set HOLDFAST_URL"
        )
    with folder.log.open("ab") as output:
        # -P: a json.py in the current directory is none of our business.
        keeper_module = ("-P", "-m", "holdfast.embedded.keeper")
        subprocess.run(
            [sys.executable, *keeper_module, str(folder.path), str(program), str(lock)],
            env=_environment(),
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            start_new_session=True,  # a Ctrl-C meant for the user must not reach the server
            check=False,  # the lock tells: who finds it free again knows that the keeper died
        )
    return logged


def _environment() -> dict[str, str]:
    """With this very package first on the path, however it came to be importable here."""
    package_root = str(Path(__file__).parents[2])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package_root, inherited] if inherited else [package_root])
    return {**os.environ, "PYTHONPATH": path}


def _answers(found: Record | None) -> TypeGuard[Record]:
    # Not without the state: a server that is being stopped still answers for a moment.
    return (
        found is not None and found.state == "ready" and server.ping(Path(found.socket)) == "ready"
    )


def _check_it_crashed(folder: Folder) -> None:
    last = record.read(folder)
    if last is not None and last.state == "stopped":
        raise Unavailable(
            f"the embedded server in {folder.path} was stopped; start it with `holdfast up`"
        )


def _check_durability(folder: Folder, found: Record, wanted: str | None) -> None:
    if wanted is not None and wanted != found.durability:
        raise InvalidArgument(
            f"the embedded server in {folder.path} runs with durability '{found.durability}', "
            f"not '{wanted}'; stop it with `holdfast down` first, or leave durability out to use "
            "it as it is"
        )


def _died(folder: Folder, logged: int) -> Unavailable:
    from holdfast.embedded import damage

    said = log.last_lines(folder.log, logged)
    advice = damage.advice(said)
    return Unavailable(
        f"the embedded server in {folder.path} ended while it was starting; "
        f"{advice and advice + '; '}the last lines of {folder.log}:\n{said}"
    )
