"""How fast each side sends: all senders at once on the stage, taking turns of a tenth of a second.

A machine that is shared changes its pace within seconds, and senders differ by a few per cent only. So they
are not measured one after the other for long but again and again in short turns, in random order; a side's
figure for the round is the median of its turns.
"""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryFile

from benchmarks.peers.sides import PROGRAMS, Side
from benchmarks.peers.stage import NotMeasured, last_words
from benchmarks.servers import Server

_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Rates:
    """Tasks a second, one by one and in bulk."""

    single: float
    bulk: float


class Sender:
    """A side's sender that waits for its turns."""

    def __init__(self, side: Side, url: str) -> None:
        self._said = TemporaryFile("w+")  # noqa: SIM115 (closed with the rest)
        self._process = subprocess.Popen(
            side.sender("turns"),
            cwd=PROGRAMS,
            env=side.surroundings(PEERS_URL=url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def turn(self, ms: int) -> Rates:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{ms}\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            raise NotMeasured(f"its sender failed: {last_words(self._said.read())}")
        told = json.loads(line)
        return Rates(told["single"] / 1000, told["bulk"] / 1000)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


def rates(
    sides: list[Side], server: Server, turns: int, ms: int, rng: random.Random
) -> dict[str, Rates | NotMeasured]:
    """Of each side: what it did, or why it did not."""
    url = f"redis://127.0.0.1:{server.port}"
    # A database each, for some call the same key by different types. BullMQ's program knows only the first.
    apart = sorted(sides, key=lambda side: side.name != "bullmq")
    senders = {side.name: Sender(side, f"{url}/{n}") for n, side in enumerate(apart)}
    taken: dict[str, list[Rates]] = {name: [] for name in senders}
    failed: dict[str, Rates | NotMeasured] = {}
    try:
        for _ in range(turns):
            with server.connect() as client:
                client.flushall()
            order = list(senders)
            rng.shuffle(order)
            for name in order:
                if name not in failed:
                    try:
                        taken[name].append(senders[name].turn(ms))
                    except NotMeasured as error:
                        failed[name] = error
    finally:
        for sender in senders.values():
            sender.close()
    return {
        name: Rates(median(t.single for t in took), median(t.bulk for t in took))
        for name, took in taken.items()
        if name not in failed
    } | failed
