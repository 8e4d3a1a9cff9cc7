"""A network of one's own, so that packets can be dropped, and any number of runs can use the same addresses.

A run is started by `alone` in a network namespace: as root, or as a user where the kernel lets users have
one. Where neither works, it runs in the common network: then only what servers can be told to drop is cut.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache

# In all rules of ours `from` and `to` decide, before the kernel looks into its table of local addresses.
_SETUP = (
    "ip link set lo up && ip rule add prio 100 lookup local && ip rule del prio 0 && "
    'HOLDFAST_TORTURE_NETWORK=own exec "$@"'
)
_WAYS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))


@cache
def _way() -> tuple[str, ...] | None:
    for way in _WAYS:
        try:
            done = subprocess.run([*way, "sh", "-c", _SETUP, "sh", "true"], capture_output=True)
        except OSError:
            return None
        if done.returncode == 0:
            return way
    return None


def alone(command: Sequence[str]) -> list[str]:
    """The command that runs `command` in a network of its own, if this machine can."""
    way = _way()
    return [*way, "sh", "-c", _SETUP, "sh", *command] if way else list(command)


def possible() -> bool:
    return own() or _way() is not None


def own() -> bool:
    """Whether this process runs in a network of its own."""
    return os.environ.get("HOLDFAST_TORTURE_NETWORK") == "own"


def cut(one: str, other: str) -> None:
    """No packet passes between two addresses, and nobody is told."""
    _rule("from", one, "to", other)
    _rule("from", other, "to", one)


def cut_port(port: int) -> None:
    """Nobody without an address of its own reaches this port."""
    _rule("from", "127.0.0.1", "ipproto", "tcp", "dport", str(port))


def heal() -> None:
    while (
        subprocess.run(["ip", "rule", "del", "prio", "10"], stderr=subprocess.DEVNULL).returncode
        == 0
    ):
        pass


def _rule(*what: str) -> None:
    subprocess.run(["ip", "rule", "add", "prio", "10", *what, "blackhole"], check=True)
