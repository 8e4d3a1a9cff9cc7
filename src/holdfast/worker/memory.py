"""How much memory a worker process may have: a limit that Python meets as MemoryError.

What counts is what the process can write to and shares with nobody (RLIMIT_DATA on Linux): a handler that
asks for more gets MemoryError, which fails its attempt and nothing else, where the kernel would have killed
the whole process. Stacks of threads count too, but hardly any of a stack is ever touched, so room for them is
added. Other systems have no such limit that works.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from holdfast.errors import InvalidArgument, Unsupported

_MIB = 1024 * 1024
# What a thread's stack takes where the system sets no limit to it.
_STACK = 8 * _MIB
# Threads of ours beside those of handlers.
_OTHERS = 8


def limit(most: int, threads: int) -> None:
    """From now on. Raises InvalidArgument if the process has more than that already."""
    if sys.platform != "linux":
        raise Unsupported("--memory-limit works on Linux only; leave it out")
    has = used()
    if has > most * 0.8:
        raise InvalidArgument(
            f"--memory-limit: the app takes {has // _MIB} MiB before it has done anything, which leaves too "
            f"little of {most // _MIB} MiB; allow at least {has * 2 // _MIB} MiB"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    stack = _STACK if soft == resource.RLIM_INFINITY else soft
    wanted = most + stack * (threads + _OTHERS)
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def used() -> int:
    """Bytes in memory that are this process's alone, near enough."""
    pages = Path("/proc/self/statm").read_bytes().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()
