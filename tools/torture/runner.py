"""Runs scenarios, each in a process and, if this machine can, a network of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tools.torture import network
from tools.torture.front import ROOT
from tools.torture.run import Outcome
from tools.torture.scenarios import Scenario

# Longer than any run takes that still makes progress.
LIMIT = 240.0


class Runner:
    """`bare`: without doors and workers. `keep`: where histories and logs of a run that is not good are left.
    `stop` ends those that run, from any thread."""

    def __init__(
        self, *, bare: bool = False, keep: Path | None = None, limit: float = LIMIT
    ) -> None:
        self._bare = bare
        self._keep = keep
        self._limit = limit
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, scenario: Scenario, seed: int) -> Outcome:
        """A run that does not end is ended, and is not good."""
        began = time.monotonic()
        with _folder() as folder:
            command = [
                sys.executable,
                "-m",
                "tools.torture.run",
                scenario.name,
                str(seed),
                str(folder),
            ]
            command += ["--bare"] if self._bare else []
            with self._started(command, folder / "run.log") as process:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self._limit)
                late = process.poll() is None
            outcome = _read(folder)
            if outcome is None:
                said = (folder / "run.log").read_text(errors="replace")[-1500:]
                why = f"no end within {self._limit:g} s\n{said}" if late else said
                outcome = Outcome(scenario.name, seed, False, time.monotonic() - began, broken=why)
            if self._keep is not None and not outcome.good:
                _copy(folder, self._keep / f"{scenario.name}-{seed}")
        return outcome

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    @contextmanager
    def _started(self, command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock, log.open("wb") as output:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                network.alone(command),
                cwd=ROOT,
                # Servers are started by fork while gRPC's threads run; its own handlers may abort the child.
                env=os.environ | {"GRPC_ENABLE_FORK_SUPPORT": "0"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # so that it can be ended with all that it started
            )
            self._running.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._running.discard(process)
                _kill(process)
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(folder: Path) -> Outcome | None:
    path = folder / "outcome.json"
    return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.exists() else None


@contextmanager
def _folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(folder: Path, target: Path) -> None:
    """Histories and logs, without data."""
    shutil.rmtree(target, ignore_errors=True)
    for pattern in ("*.jsonl", "*.log", "outcome.json"):
        for path in folder.rglob(pattern):
            copy = target / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
