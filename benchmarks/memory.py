"""Bytes of server memory per ready message, and what is left when all are acked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from benchmarks.bars import Bar
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.servers import Server, running
from benchmarks.sides import QUEUE, Holdfast, RawLists, RawStreams, Side
from holdfast.engine import keys

_SIDES: dict[str, Callable[[Server], Side]] = {
    "raw lists": RawLists,
    "raw Streams": RawStreams,
    "Holdfast": Holdfast,
}
_BATCH = 1000
_A_MINUTE_MS = 60_000


@dataclass(frozen=True)
class Footprint:
    ready_bytes: float
    """Per message: growth of used_memory, buffers left out."""
    ready_bytes_by_key: float
    """Per message, as MEMORY USAGE tells of all the keys: a cross-check."""
    left_bytes: int
    """Growth of used_memory after everything was received and acked."""
    left_keys: list[str]


@dataclass(frozen=True)
class MemoryResult:
    messages: int
    sides: dict[str, Footprint]
    left_over: list[str]
    """Keys of Holdfast that should not be there when all is acked."""

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Server memory, {self.messages:,} messages of {BODY_BYTES} bytes",
                (
                    "side",
                    "bytes per ready message",
                    "by MEMORY USAGE",
                    "bytes in all after all acked",
                    "keys left",
                ),
                [
                    (
                        name,
                        f"{of.ready_bytes:.1f}",
                        f"{of.ready_bytes_by_key:.1f}",
                        f"{of.left_bytes:,}",
                        ", ".join(of.left_keys) or "none",
                    )
                    for name, of in self.sides.items()
                ],
                "A queue keeps one hash (settings, counters, the last id); a sender's last answer "
                "(:p:…) goes by itself within a minute.",
            )
        ]

    def bars(self) -> list[Bar]:
        return [
            Bar("bytes per ready message", self.sides["Holdfast"].ready_bytes, "≤", 170, "bytes"),
            Bar(
                "keys left after acks, but settings, counters and last answers",
                len(self.left_over),
                "≤",
                0,
                "keys",
            ),
        ]


def measure(run: Run) -> MemoryResult:
    messages = run.choose(200_000, 5_000)
    found: dict[str, Footprint] = {}
    left_over: list[str] = []
    with run.step("memory", len(_SIDES) * 2 * messages // _BATCH) as tick:
        for name, make in _SIDES.items():
            with running("fast") as server, server.connect() as client:
                side = make(server)
                # Once through first: connections, buffers and the function library are there then.
                _fill(run, side, _BATCH, lambda: None)
                _drain(side, _BATCH, lambda: None)
                found[name] = _footprint(run, client, side, messages, tick)
                if name == "Holdfast":
                    left_over = _left_over(client, _key_names(client))
                side.close()
    return MemoryResult(messages, found, left_over)


def _footprint(
    run: Run, client: redis.Redis, side: Side, messages: int, tick: Callable[[], None]
) -> Footprint:
    empty = _used(run, client)
    _fill(run, side, messages, tick)
    full = _used(run, client)
    by_key = sum(_usage(client, key) for key in _key_names(client))
    _drain(side, messages, tick)
    return Footprint(
        (full - empty) / messages,
        by_key / messages,
        _used(run, client) - empty,
        [key.decode(errors="replace") for key in _key_names(client)],
    )


def _fill(run: Run, side: Side, messages: int, tick: Callable[[], None]) -> None:
    for _ in range(messages // _BATCH):
        side.send(run.bodies(_BATCH))
        tick()


def _drain(side: Side, messages: int, tick: Callable[[], None]) -> None:
    for _ in range(messages // _BATCH):
        held, bodies = side.receive(_BATCH)
        if len(bodies) != _BATCH:
            raise RuntimeError("messages are missing")
        side.ack(held)
        tick()


def _used(run: Run, client: redis.Redis) -> int:
    """used_memory, without the buffers of clients and of the append-only file, once it holds still."""
    # The server shrinks a client's buffers when it has been idle for two seconds.
    time.sleep(run.choose(3, 0))
    client.execute_command("MEMORY", "PURGE")
    give_up = time.monotonic() + 10
    last, same = -1, 0
    while same < 3 and time.monotonic() < give_up:
        time.sleep(0.05)
        found: Any = client.info("memory")
        buffers = int(found["mem_clients_normal"]) + int(found["mem_aof_buffer"])
        now = int(found["used_memory"]) - buffers
        same = same + 1 if abs(now - last) < 1024 else 0
        last = now
    return last


def _usage(client: redis.Redis, key: bytes) -> int:
    found: Any = client.memory_usage(key, samples=0)
    return int(found)


def _key_names(client: redis.Redis) -> list[bytes]:
    return sorted(client.scan_iter(count=1000))


def _left_over(client: redis.Redis, found: list[bytes]) -> list[str]:
    """All but the queue's own hash, the list of queues, and answers that will expire by themselves."""
    allowed = {keys.REGISTRY.encode(), keys.base(QUEUE).encode()}
    passing = tuple(
        keys.suffixed(keys.base(QUEUE), name).encode() for name in ("last_send", "last_one")
    )
    wrong = []
    for key in found:
        ttl: Any = client.pttl(key)
        expires = key.startswith(passing) and 0 < ttl <= _A_MINUTE_MS
        if key not in allowed and not expires:
            wrong.append(key.decode(errors="replace"))
    return wrong
