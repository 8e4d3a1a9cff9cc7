"""One server process, and what can be done to it. Every answer is waited for a second and no longer."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.embedded import binary, log, server
from holdfast.embedded.server import Setting

ERRORS = (redis.RedisError, OSError)


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Returns when `condition` is true; one that a server in trouble cannot answer is not."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except ERRORS:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.03)


class Node:
    def __init__(
        self,
        folder: Path,
        host: str,
        port: int,
        settings: Mapping[str, Setting],
        *,
        program: Path | None = None,
        config: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.host = host
        self.port = port
        self.settings: dict[str, Setting] = {"bind": host, "port": port, **settings}
        self.paused = False
        self._program = program or binary()
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        # A name in the history; the folder is where its log is.
        self.name = folder.name

    def __repr__(self) -> str:
        return f"{self.name} ({self.host}:{self.port})"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def works(self) -> bool:
        return self.alive and not self.paused

    def spawn(self, more: Mapping[str, Setting] | None = None) -> None:
        self._process = server.spawn(
            self._program,
            {**self.settings, **(more or {})},
            self.folder / "server.log",
            config=self._config,
        )
        self.paused = False

    def start(self, more: Mapping[str, Setting] | None = None) -> None:
        self.spawn(more)
        self.wait()

    def wait(self) -> None:
        def answers() -> bool:
            if not self.alive:
                said = log.last_lines(self.folder / "server.log", 0)
                raise RuntimeError(f"{self} does not start: {said[-500:]}")
            return server.ping((self.host, self.port)) == "ready"

        wait_until(answers, 20, f"start {self}")

    def kill(self) -> None:
        """kill -9, of what it has forked too: what it has not written by now is lost. A fork that rewrites
        the append-only file has the parent's port for a moment, and the next one could not listen there."""
        if self._process is not None:
            forks = psutil.Process(self._process.pid).children() if self.alive else []
            self._process.kill()
            for fork in forks:
                with suppress(psutil.NoSuchProcess):
                    fork.kill()
            psutil.wait_procs(forks, 5)
            self._process.wait()
        self.paused = False

    def stop(self) -> None:
        if self._process is not None:
            self.resume()
            server.stop(self._process)

    def pause(self) -> None:
        """It stands still, and its connections stay open."""
        if self.alive and self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.alive and self._process is not None:
            self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def connect(self, timeout: float = 1.0) -> redis.Redis:
        return redis.Redis(
            host=self.host,
            port=self.port,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )

    def ask(self, *words: str | int | bytes, timeout: float = 1.0) -> Any:
        """The answer to one command, as bytes, over a connection of its own."""
        with self.connect(timeout) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def info(self, section: str) -> dict[str, str]:
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)
