"""`holdfast serve` to measure on: a process of its own in front of a server, as users run it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from benchmarks.servers import Server

_START_S = 30.0


@dataclass(frozen=True)
class Doors:
    resp: str
    grpc: str
    """host:port each."""


@contextmanager
def serving(server: Server) -> Iterator[Doors]:
    """Both doors, open; shut afterwards."""
    words = ["serve", "--json", "--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    words += ["--url", server.url]
    with started("holdfast.cli.main", *words) as first_line:
        ready = json.loads(first_line)
        yield Doors(ready["resp"], ready["grpc"])


@contextmanager
def started(module: str, *words: str) -> Iterator[str]:
    """A Python module in a process of its own, from its first line of output until the end."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield _first_line(process.stdout, module)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _first_line(out: IO[str], module: str) -> str:
    ready, _, _ = select.select([out], [], [], _START_S)
    line = out.readline() if ready else ""
    if not line:
        raise RuntimeError(f"{module} did not start")
    return line
