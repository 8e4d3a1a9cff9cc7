"""One worker of one side on a server of its own: start it, hear from it, look at what it used, end it.

What a worker has to say comes through two pipes (programs/tally.py). Its processes are whatever descends
from the one that was started, and whatever is in its session, so that all of them are counted and
ended: some leave the session, and some outlive their parent.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.peers.sides import PROGRAMS, Side
from benchmarks.servers import Server

_SEND_SECONDS = 180.0
_GRACE_SECONDS = 5.0


class NotMeasured(Exception):
    """A side did not do what its measurement needs: the reason, for the table."""


@dataclass(frozen=True)
class Usage:
    """Counters at one moment."""

    worker_us: float
    """CPU of the worker and its children."""
    server_us: float
    commands: dict[str, int]
    reads: int
    """Times that the server read from a socket: about one a round trip."""


class Stage:
    def __init__(self, side: Side, server: Server, folder: Path) -> None:
        self.side, self.server, self.folder = side, server, folder
        self.url = f"redis://127.0.0.1:{server.port}/0"
        self._worker: subprocess.Popen[bytes] | None = None
        for name in ("told", "go"):
            os.mkfifo(folder / name)
        # For reading and writing, so that neither end ever has to wait for the other to open it.
        self._told = os.open(folder / "told", os.O_RDWR | os.O_NONBLOCK)
        self._go = os.open(folder / "go", os.O_RDWR)
        self._heard = b""

    def close(self) -> None:
        self.kill()
        os.close(self._told)
        os.close(self._go)

    def _environment(self, **more: str) -> dict[str, str]:
        return self.side.surroundings(PEERS_URL=self.url, PEERS_FOLDER=str(self.folder), **more)

    # ---- sending ---------------------------------------------------------------------------

    def send(self, *arguments: str | int, **environment: str) -> dict[str, int]:
        """Run the side's sender to its end; what it says about itself."""
        finished = subprocess.run(
            self.side.sender(*arguments),
            cwd=PROGRAMS,
            env=self._environment(**environment),
            capture_output=True,
            text=True,
            timeout=_SEND_SECONDS,
            check=False,
        )
        if finished.returncode:
            raise NotMeasured(f"its sender failed: {last_words(finished.stderr)}")
        found: dict[str, int] = json.loads(finished.stdout.splitlines()[-1])
        return found

    # ---- working ---------------------------------------------------------------------------

    def start(self, **environment: str | int) -> None:
        plain = {name: str(value) for name, value in environment.items()}
        with (self.folder / "worker.log").open("ab") as log:
            self._worker = subprocess.Popen(
                self.side.worker(self.url, crash="PEERS_CRASH" in environment),
                cwd=PROGRAMS,
                env=self._environment(**plain),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def hear(self, moment: str, seconds: float) -> dict[str, Any]:
        """What the worker tells next; it must be of this moment."""
        give_up = time.monotonic() + seconds
        while b"\n" not in self._heard:
            if select.select([self._told], [], [], 0.1)[0]:
                self._heard += os.read(self._told, 1 << 16)
            elif self._worker is None or self._worker.poll() is not None:
                raise NotMeasured(f"its worker ended: {self._log()}")
            elif time.monotonic() > give_up:
                raise NotMeasured(f"nothing of {moment!r} in {seconds:.0f} s; {self._log()}")
        line, _, self._heard = self._heard.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        if told["moment"] != moment:
            raise NotMeasured(f"it told of {told['moment']!r} and not of {moment!r}")
        return told

    def go_on(self) -> None:
        os.write(self._go, b".")

    def usage(self) -> Usage:
        with self.server.connect() as client:
            info: dict[str, Any] = client.info("everything")
        return Usage(
            sum(_cpu_us(process) for process in self._processes()),
            (info["used_cpu_user"] + info["used_cpu_sys"]) * 1e6,
            {
                name.removeprefix("cmdstat_"): of["calls"]
                for name, of in info.items()
                if name.startswith("cmdstat_")
            },
            info["total_reads_processed"],
        )

    def _processes(self) -> list[psutil.Process]:
        if self._worker is None:
            return []
        session, found = self._worker.pid, {}
        for process in psutil.process_iter():
            with suppress(ProcessLookupError, psutil.Error):
                if os.getsid(process.pid) == session:
                    family = [process, *process.children(recursive=True)]
                    found.update({member.pid: member for member in family})
        return list(found.values())

    def stop(self) -> None:
        """Ask it to end, as an operator would; what does not listen is killed."""
        if self._worker is not None:
            self._worker.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._worker.wait(_GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """kill -9 of the worker and of all it has started."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._worker is not None:
            self._worker.wait()
        self._worker = None

    def _log(self) -> str:
        where = self.folder / "worker.log"
        return last_words(where.read_text(errors="replace")) if where.exists() else ""


@contextmanager
def stage(side: Side, server: Server) -> Iterator[Stage]:
    """On an empty server; afterwards nothing runs."""
    with server.connect() as client:
        client.flushall()
    with TemporaryDirectory(prefix="hf-peers-") as name:
        made = Stage(side, server, Path(name))
        try:
            yield made
        finally:
            made.close()


def _cpu_us(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        # Children that it has already buried are in its own account.
        return float(times.user + times.system + times.children_user + times.children_system) * 1e6
    return 0.0


def last_words(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " · ".join(lines[-2:])[:300] or "it said nothing"
