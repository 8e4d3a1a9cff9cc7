"""The circumstances of a run: without them its numbers mean nothing."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import holdfast
from benchmarks.servers import running


@dataclass(frozen=True)
class About:
    date: str
    holdfast: str
    server: str
    python: str
    redis_py: str
    hiredis: str
    machine: str
    cores: int
    connection: str
    seed: int
    quick: bool
    load_before: float
    """Of others: 1-minute load average when the run began."""
    seconds: float = 0.0

    def line(self) -> str:
        return (
            f"{self.date} · Holdfast {self.holdfast} · {self.server} · Python {self.python} · "
            f"redis-py {self.redis_py} with hiredis {self.hiredis} · {self.connection} · "
            f"{self.machine}, {self.cores} cores, load {self.load_before:.1f} before"
        )


def look(*, seed: int, quick: bool) -> About:
    with running("fast") as server:
        info = server.info("server")
    return About(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        holdfast=holdfast.__version__,
        server=f"Valkey {info['valkey_version']}",
        python=platform.python_version(),
        redis_py=version("redis"),
        hiredis=version("hiredis"),
        machine=f"{platform.system()} {platform.machine()}, {_processor()}",
        cores=os.cpu_count() or 0,
        connection="unix socket",
        seed=seed,
        quick=quick,
        load_before=os.getloadavg()[0],
    )


def _processor() -> str:
    """Its name, where the system tells."""
    where = Path("/proc/cpuinfo")
    lines = where.read_text().splitlines() if where.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
