"""The data folder: where everything of one embedded server lives.

    .holdfast/
      appendonlydir/   the messages, as Valkey keeps them; .damaged-…: as they were before a repair
      valkey.sock      what clients connect to (elsewhere when this path is too long)
      valkey.log       what the server and its keeper had to say
      server.json      what runs now (record.py)
      users.lock       shared by every user; exclusive by a keeper that shuts down
      keeper.lock      exclusive by the keeper, from before its birth to its death
      server.lock      exclusive by the server itself
      pin, stop        wishes to the keeper: the run that they are meant for

Invariant: only this file spells these names; the folder, and any folder made for a socket, is
closed to other users.

Rejected: a folder per user under ~/.local. A queue belongs to a project, as its .git does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.errors import HoldfastError, InvalidArgument, Unavailable

# sun_path holds 108 bytes on Linux and 104 on macOS, with the closing NUL.
LONGEST_SOCKET_PATH = 100

_FIX_THE_FOLDER = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
}


def home() -> Path:
    """The default data folder: HOLDFAST_HOME, or .holdfast in the current directory."""
    return Path(os.environ.get("HOLDFAST_HOME") or ".holdfast").expanduser().resolve()


class Folder:
    def __init__(self, path: Path | None = None) -> None:
        # Resolved: true wherever the process goes, and one socket whichever road led here.
        self.path = home() if path is None else Path(path).expanduser().resolve()
        self.aof = self.path / "appendonlydir"
        self.users_lock = self.path / "users.lock"
        self.keeper_lock = self.path / "keeper.lock"
        self.server_lock = self.path / "server.lock"
        self.record = self.path / "server.json"
        self.pin = self.path / "pin"
        self.stop = self.path / "stop"
        self.log = self.path / "valkey.log"

    def create(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def socket(self) -> Path:
        """Where the server of this folder listens; makes the folder for it if need be.

        The short path is the same for everyone who asks with the same temporary folder; who has
        another one learns the true path from the record.
        """
        path = self.path / "valkey.sock"
        if _fits(path):
            return path
        from hashlib import sha256  # a slow import that only long paths need

        name = sha256(os.fsencode(self.path)).hexdigest()[:16] + ".sock"
        return _private_temporary_folder(name) / name

    def bytes_on_disk(self) -> int:
        return sum(_size(Path(at, name)) for at, _, names in os.walk(self.path) for name in names)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns an error of the file system into one that names the folder and a way out."""
        try:
            yield
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> HoldfastError:
        kind = InvalidArgument if error.errno in _FIX_THE_FOLDER else Unavailable
        where = f" ({error.filename})" if error.filename else ""
        return kind(
            f"cannot use the data folder {self.path}: {error.strerror or error}{where}; "
            "set HOLDFAST_HOME to a folder that you can write to, or HOLDFAST_URL to a server"
        )


def _fits(path: Path) -> bool:
    try:
        # A name that is not text could not travel in a URL.
        return len(str(path).encode()) <= LONGEST_SOCKET_PATH
    except UnicodeEncodeError:
        return False


def _private_temporary_folder(for_file: str) -> Path:
    from tempfile import gettempdir

    name = f"holdfast-{os.getuid()}"
    path = Path(gettempdir(), name)
    if not _fits(path / for_file):
        path = Path("/tmp", name)
    path.mkdir(mode=0o700, exist_ok=True)
    # Anybody may create a folder there: one that others can enter is no place for our socket.
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(errno.EACCES, "not a private folder of this user", str(path))
    return path


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:  # the server removes old append-only files as it goes
        return 0
