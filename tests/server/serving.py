"""`holdfast serve` in a process of its own, as a supervisor would run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import holdfast
from holdfast.v1 import broker_pb2_grpc
from tests.servers import wait_until

SOURCE = Path(holdfast.__file__).parents[1]
LOOPBACK = ("--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


class Serving:
    """A server that is ready, or at least started."""

    def __init__(
        self, folder: Path, words: Sequence[str], env: dict[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log, self._out = folder / "log", folder / "out"
        # Nothing of the developer's own shell gets in.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
        clean |= {"PYTHONPATH": str(SOURCE), "HOLDFAST_HOME": str(folder / "home")}
        with self._log.open("ab") as log, self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.main", "serve", "--json", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=clean | (env or {}),
            )

    def wait_ready(self, timeout: float = 30) -> None:
        wait_until(lambda: self.out or self.process.poll() is not None, timeout, "the ready line")
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log}"

    @property
    def out(self) -> str:
        text = self._out.read_text()
        return text if text.endswith("\n") else ""

    @property
    def ready(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self.out))

    @property
    def log(self) -> str:
        return self._log.read_text()

    def said(self, event: str) -> list[dict[str, Any]]:
        """Events of that name; for servers with --log-format json."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, timeout: float) -> int:
        """Its exit status; AssertionError if it does not end in time."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end within {timeout} s: {self.log}") from None

    def stop(self, timeout: float = 20) -> tuple[int, float]:
        """SIGTERM; its exit status and how long it took."""
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        status = self.ended(timeout)
        return status, time.monotonic() - began

    def redis(self, **options: Any) -> redis.Redis:
        """A client that repeats nothing by itself: what is sent once is sent once."""
        host, _, port = str(self.ready["resp"]).rpartition(":")
        options.setdefault("socket_timeout", 60)
        options.setdefault("retry", Retry(NoBackoff(), 0))
        return redis.Redis(host=host.strip("[]"), port=int(port), **options)

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.ready["grpc"])

    @contextmanager
    def queues(self) -> Iterator[broker_pb2_grpc.QueuesStub]:
        with self.channel() as channel:
            yield broker_pb2_grpc.QueuesStub(channel)


@contextmanager
def started(folder: Path, *words: str, env: dict[str, str] | None = None) -> Iterator[Serving]:
    """Started, perhaps not ready; killed at the end if it has not ended by itself."""
    running = Serving(folder, words, env)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait()


@contextmanager
def serving(
    folder: Path, url: str, *words: str, env: dict[str, str] | None = None
) -> Iterator[Serving]:
    """Ready, in front of that Valkey, both doors on free ports of loopback unless said otherwise."""
    doors = () if {"--resp", "--grpc"} & set(words) else LOOPBACK
    logs = ("--log-format", "json", "--check", "off")
    with started(folder, "--url", url, *doors, *logs, *words, env=env) as running:
        running.wait_ready()
        yield running
