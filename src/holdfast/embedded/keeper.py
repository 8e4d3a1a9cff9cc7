"""The keeper: a small process between the users of a data folder and its server.

    user ──shared──┐
    user ──shared──┤ users.lock        keeper.lock ◄──exclusive── keeper
    keeper ─tries exclusive─┘          server.lock ◄──exclusive── valkey-server, its child

Each user holds users.lock shared. The keeper tries to take it exclusively: it succeeds only when
the last user is gone, even by kill -9, and then stops the server. Who joins at that moment waits
for the lock, and starts anew. Killed itself, the keeper takes its server along (PDEATHSIG) and the
next to join finds keeper.lock free. A server that crashes is started again, so that its users
only see a lost connection.

Invariant: whoever holds keeper.lock is the only one to run a server here, and when it is free no
server runs or the one that does is about to die, which server.lock tells.

It looks ten times a second, rather than wait inside flock(): a wait there needs a thread, and
starting a child with PDEATHSIG is only safe without threads. As a side effect commands that
follow each other quickly find the server still up.

Wishes come as files naming the run they are meant for, not as signals: a file cannot reach a
stranger, be it a recycled pid or one of another container. SIGTERM works too.

Rejected: a server that daemonizes itself, or the first user as its parent. Neither knows when the
last user is gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

from holdfast.embedded import locks, record, server
from holdfast.embedded.folder import Folder
from holdfast.embedded.record import State

_LOOK_SECONDS = 0.1
_LOOK_WHILE_STARTING_SECONDS = 0.01
_CRASHES_FORGIVEN = 5
_FORGIVEN_AFTER_SECONDS = 60.0


class Keeper:
    def __init__(self, folder: Folder, program: Path) -> None:
        known = record.read(folder)
        assert known is not None, "who starts a keeper writes the record first"
        self._folder = folder
        self._program = program
        self._record = known._replace(keeper_pid=os.getpid())
        self._users = locks.open_lock(folder.users_lock)
        self._inode = os.fstat(self._users).st_ino
        self._crashes: list[float] = []
        self._terminated = False
        self._wake = self._listen_to_signals()

    def run(self) -> None:
        process = self._start()
        try:
            while True:
                # First of all: the wishes and the record may be those of a new folder by now.
                if self._folder_is_gone():
                    # Not SIGTERM: dying politely, the server would unlink a socket that is no
                    # longer its own.
                    process.kill()
                    return
                if self._asked_to_stop() or self._unused():
                    break
                if process.poll() is not None:
                    if not self._worth_restarting(process.returncode):
                        break
                    process = self._start()
                elif self._record.state != "ready":
                    self._look_whether_it_serves()
                self._pause()
            self._end(process)
        finally:
            server.stop(process)

    def _start(self) -> Popen[bytes]:
        # The server inherits the lock and we drop it: held exactly as long as the server lives.
        lock = locks.open_lock(self._folder.server_lock)
        try:
            if not locks.lock_within(lock, server.GRACE_SECONDS):
                raise SystemExit("holdfast: another server still uses this folder")
            process = server.spawn(
                self._program,
                {
                    **server.options(self._folder.path, self._record.durability),
                    "port": 0,
                    "unixsocket": self._record.socket,
                    "unixsocketperm": "700",
                    "logfile": self._folder.log,
                },
                self._folder.log,
                keep_open=[lock],
            )
        except OSError as error:
            self._note("failed", None)
            raise SystemExit(f"holdfast: cannot run {self._program}: {error}") from error
        finally:
            os.close(lock)
        self._note("starting", process.pid)
        return process

    def _look_whether_it_serves(self) -> None:
        answer = server.ping(Path(self._record.socket))
        if answer == "ready":
            self._note("ready", self._record.server_pid)
        elif answer == "loading" and self._record.state == "starting":
            self._note("loading", self._record.server_pid)

    def _asked_to_stop(self) -> bool:
        return self._terminated or self._wished(self._folder.stop)

    def _unused(self) -> bool:
        if self._wished(self._folder.pin) or not locks.try_lock(self._users):
            return False
        # Once more: `up` pins while it holds the lock that we only now have got.
        if self._wished(self._folder.pin):
            os.close(self._users)
            self._users = locks.open_lock(self._folder.users_lock)
            return False
        return True

    def _wished(self, wish: Path) -> bool:
        try:
            return wish.read_text() == self._record.run
        except FileNotFoundError:
            return False

    def _folder_is_gone(self) -> bool:
        try:
            return self._folder.users_lock.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def _worth_restarting(self, status: int) -> bool:
        if status == 0 or self._record.state != "ready":  # told to exit, or it cannot even start
            return False
        now = time.monotonic()
        self._crashes = [at for at in self._crashes if now - at < _FORGIVEN_AFTER_SECONDS] + [now]
        return len(self._crashes) <= _CRASHES_FORGIVEN

    def _end(self, process: Popen[bytes]) -> None:
        crashed = process.poll() not in (None, 0)
        self._note("stopping", self._record.server_pid)
        server.stop(process)
        Path(self._record.socket).unlink(missing_ok=True)
        self._note("failed" if crashed else "stopped", None)

    def _note(self, state: State, server_pid: int | None) -> None:
        self._record = self._record._replace(state=state, server_pid=server_pid)
        record.write(self._folder, self._record)

    def _pause(self) -> None:
        starting = self._record.state != "ready"
        select.select(
            [self._wake], [], [], _LOOK_WHILE_STARTING_SECONDS if starting else _LOOK_SECONDS
        )
        with suppress(BlockingIOError):
            os.read(self._wake, 512)

    def _listen_to_signals(self) -> int:
        """A descriptor that is readable once a signal came: a signal ends every pause at once."""
        wake, write_end = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return wake

    def _terminate(self, *_: object) -> None:
        self._terminated = True


def main() -> None:
    """Called as `python -m holdfast.embedded.keeper FOLDER PROGRAM LOCK`, by start.py only.

    LOCK is the number of the inherited descriptor that holds keeper.lock.
    """
    folder, program, lock = sys.argv[1:]
    # Forked once more, so that no user has the keeper as a child to reap.
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(lock), False)
    Keeper(Folder(Path(folder)), Path(program)).run()


if __name__ == "__main__":
    main()
