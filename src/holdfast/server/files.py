"""Open files: a connection is one, and most systems give a process fewer than a server needs, unless it
asks."""

from __future__ import annotations

import resource

# For the files of the server itself, and connections to Valkey.
SPARE = 512


def allow(wanted: int) -> int:
    """Ask for so many open files, and say how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return wanted if soft == resource.RLIM_INFINITY else soft
