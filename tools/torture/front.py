"""What stands before the servers: `holdfast serve` with both doors, and `holdfast worker`, as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import holdfast
from holdfast import HoldfastError, errors
from tools.torture.crew import LEASE, Crew, Options
from tools.torture.hands import Hands, Held
from tools.torture.producers import Send
from tools.torture.servers import free_port

ROOT = Path(__file__).parents[2]
_HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


class Front:
    def __init__(self, folder: Path, options: Options, tasks: str) -> None:
        self._folder = folder
        self.resp_port, self.grpc_port = free_port(["127.0.0.1"]), free_port(["127.0.0.1"])
        replicas = str(options.replicas)
        self._serve = [*_HOLDFAST, "serve", "--url", options.url, "--replicas", replicas]
        self._serve += [
            "--resp",
            f"127.0.0.1:{self.resp_port}",
            "--grpc",
            f"127.0.0.1:{self.grpc_port}",
        ]
        self._serve += ["--check", "off", "--json"]
        self._work = [
            *_HOLDFAST,
            "worker",
            "tools.torture.app:app",
            "-c",
            "8",
            "--lease",
            f"{LEASE:g}s",
        ]
        self._environment = os.environ | {
            "TORTURE_URL": options.url,
            "TORTURE_REPLICAS": replicas,
            "TORTURE_TASKS": tasks,
            "TORTURE_HISTORIES": str(folder / "history"),
        }
        self.doors = self._start("doors", self._serve)
        self.worker = self._start("worker", self._work)
        self._wait_for_doors()

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[str]:
        with (self._folder / f"{name}.log").open("a") as log:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env=self._environment,
                stdout=subprocess.PIPE if name == "doors" else log,
                stderr=log,
                text=True,
            )

    def _wait_for_doors(self) -> None:
        assert self.doors.stdout is not None
        said = self.doors.stdout.readline()
        if not said or not json.loads(said)["ready"]:
            raise RuntimeError(
                f"the doors do not open: {(self._folder / 'doors.log').read_text()[-800:]}"
            )

    def kill_doors(self) -> None:
        self.doors.kill()
        self.doors.wait()

    def open_doors(self) -> None:
        self.doors = self._start("doors", self._serve)
        self._wait_for_doors()

    def replace_worker(self) -> None:
        self.worker.kill()
        self.worker.wait()
        self.worker = self._start("worker", self._work)

    def problems(self) -> list[str]:
        """What should not be in their logs, and who should be there and is not."""
        found = []
        for name, process in (("doors", self.doors), ("worker", self.worker)):
            if process.poll() is not None:
                found.append(f"{name}: ended by itself with {process.returncode}")
            said = (self._folder / f"{name}.log").read_text(errors="replace")
            if "Traceback" in said:
                found.append(f"{name}: {said[said.index('Traceback') :][:1500]}")
        return found

    def close(self) -> None:
        for process in (self.doors, self.worker):
            process.kill()
            process.wait()


def tasks(front: Front, crew: Crew) -> Send:
    os.environ |= {k: v for k, v in front._environment.items() if k.startswith("TORTURE")}
    from tools.torture.app import in_loop, in_thread  # what they use is in the environment

    turn = {"n": 0}

    def send(bodies: list[str]) -> list[str]:
        turn["n"] += 1
        task = in_loop if turn["n"] % 2 else in_thread
        return [task.send(body).id for body in bodies]

    return send


class Resp:
    """A Redis client at the RESP door, that connects again by itself. The client is not ours: what it
    raises for an answer of ours, or a lost connection, is made an error of ours here."""

    def __init__(self, port: int, queue: str) -> None:
        self._queue = queue
        self._client: Any = redis.Redis(
            host="127.0.0.1", port=port, socket_timeout=40, retry=Retry(NoBackoff(), 0)
        )

    def _do(self, *words: Any) -> Any:
        try:
            return self._client.execute_command(*words)
        except redis.ResponseError as error:
            if errors.by_code(str(error).partition(" ")[0]) is HoldfastError:
                raise  # a word that no error of ours has
            raise HoldfastError(str(error)) from error
        except redis.RedisError as error:
            raise HoldfastError(str(error)) from error

    def send(self, bodies: list[str]) -> list[str]:
        return [str(self._do("MQ.SEND", self._queue, body).decode()) for body in bodies]

    def push(self, bodies: list[str]) -> list[str]:
        return [id.decode() for id in self._do("MQ.PUSH", self._queue, *bodies)]

    def receive(self) -> list[list[Any]]:
        words = ("COUNT", 10, "BLOCK", 500, "LEASE", round(LEASE * 1000))
        return self._do("MQ.RECEIVE", *words, self._queue) or []

    def ack(self, receipts: Sequence[str]) -> set[str]:
        """The receipts of those that were really removed."""
        return {told.decode() for told in self._do("MQ.ACK", self._queue, *receipts) or ()}


def take_by_resp(crew: Crew, who: str, place: str, client: Resp) -> None:
    hands = Hands(crew, who, place)

    def work() -> None:
        while not crew.done.is_set():
            asked = time.monotonic()
            done, rows = crew.attempt(who, client.receive)
            if not done or not rows:
                crew.done.wait(0.05)
                continue
            left = asked + LEASE - time.monotonic()
            held = [Held(r[2].decode(), r[1].decode(), r[3].decode(), left) for r in rows]
            for each in held:
                hands.got(each)
            hands.settling(held)
            done, acked = crew.attempt(who, lambda: client.ack([each.receipt for each in held]))  # noqa: B023
            if done:
                hands.told(held, acked)

    crew.take(who, work)


def remote(front: Front) -> holdfast.Client:
    return holdfast.connect(f"grpc://127.0.0.1:{front.grpc_port}")
