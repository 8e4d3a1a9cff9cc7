"""Being a user of a data folder's server: the server stays while you are one.

Invariant: a membership is one descriptor with users.lock held shared, taken before anything else
is looked at; so from then on no keeper can shut the server down as unused.
Rejected: counting users inside one process. Two descriptors do that already, and a fork too.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from holdfast import forks
from holdfast.embedded import locks, server, start
from holdfast.embedded.folder import Folder
from holdfast.embedded.record import Record
from holdfast.errors import InvalidArgument, Unavailable


def url_of(socket: str) -> str:
    return "unix://" + quote(socket)


class Membership:
    """Keeps the embedded server running until `close`, or until this process ends in any way.

    Losing the object does not end it: only `close` does.
    """

    def __init__(self, folder: Folder, users: int, found: Record) -> None:
        self._folder = folder
        self._users: int | None = users
        self._closing = threading.Lock()
        self.home = folder.path
        self.socket = Path(found.socket)
        self.url = url_of(found.socket)
        """For any Redis client's from_url; the same after a restart of the server."""
        self.durability = found.durability
        forks.watch(self)

    def revive(self) -> None:
        """Have the server answer again after it, or its keeper, was killed.

        For a client that finds the connection refused. Waits until the server has its data back.
        A crashed server alone comes back by itself; this also covers its keeper.

        Raises: Unavailable, when it cannot start or somebody stopped it with `holdfast down`.
        """
        if self._users is None:
            raise InvalidArgument("this membership is closed; join again")
        with self._folder.explained():
            found = start.ensure_running(self._folder, None, again=True)
        self.durability = found.durability
        self.socket, self.url = Path(found.socket), url_of(found.socket)

    def forked(self) -> None:
        """In the child of a fork, which by its copy of the descriptor is a user too: nobody has the lock."""
        self._closing = threading.Lock()

    def close(self) -> None:
        """Stop being a user. Idempotent; the server ends soon after its last user has left."""
        with self._closing:
            users, self._users = self._users, None
        if users is not None:
            os.close(users)

    def __enter__(self) -> Membership:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Membership {self.url}{' (closed)' if self._users is None else ''}>"


def join(home: Path | None = None, durability: str | None = None) -> Membership:
    """Use the server of this data folder; when it answers, you have it for as long as you like.

    Starts it if nobody has, else joins what runs, whoever started it; blocks until the server has
    read its data. `durability` is "durable" or "fast"; None takes what runs, and starts "durable".

    Raises: InvalidArgument (another durability runs, or the folder cannot be used), Unsupported
    (no server for this platform), Unavailable (it does not start; the text quotes its log).

        with embedded.join() as server:
            redis.Redis.from_url(server.url).ping()
    """
    if durability is not None and durability not in server.DURABILITY:
        raise InvalidArgument(
            f"durability is 'durable' or 'fast', not {durability!r}; leave it out for 'durable'"
        )
    folder = Folder(home)
    with folder.explained():
        folder.create()
        users = locks.open_lock(folder.users_lock)
        try:
            # Held up only while a keeper that saw no user left is stopping its server.
            if not locks.lock_within(users, start.SILENCE_SECONDS, shared=True):
                raise Unavailable(
                    f"the embedded server in {folder.path} has been shutting down for "
                    f"{start.SILENCE_SECONDS:.0f} s; see {folder.log}"
                )
            return Membership(folder, users, start.ensure_running(folder, durability))
        except BaseException:
            os.close(users)
            raise
