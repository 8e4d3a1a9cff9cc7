"""What a fork leaves in the child: copies of things of which there may be only one.

A name under which one process sends; sockets that the parent reads from; locks that a thread of the parent
held, and that nobody in the child will ever release; services whose threads are not there. Whatever owns one
of these is watched here, and told in the child before anything else runs in it, while there is one thread.

Rejected: comparing process ids at each use. It costs every call, and comes too late for a lock.
"""

from __future__ import annotations

import logging
import os
import weakref
from typing import Protocol

log = logging.getLogger("holdfast")


class Owner(Protocol):
    def forked(self) -> None:
        """We are in the child of a fork: what belongs to the parent must be left alone."""


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def watch(owner: Owner) -> None:
    """Have it told in every child that is forked from now on, for as long as it lives."""
    _owners.add(owner)


def _tell() -> None:
    for owner in list(_owners):
        try:
            owner.forked()
        except Exception:
            log.exception("%r, after a fork", owner)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_tell)
