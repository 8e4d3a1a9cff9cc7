"""What was found: the medians of the rounds, the tables, and the bars.

A ratio to ours is the median of the ratios of single rounds, for in one round all sides met the same
weather. A peer counts as one that acknowledges when its task survived the crash, whatever its
documentation says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median

from benchmarks.bars import Bar
from benchmarks.peers.crash import PATIENCE, Crash
from benchmarks.peers.laps import RATE, Lap
from benchmarks.peers.sides import OURS, SIDES
from benchmarks.rounds import Ratio, ratio
from benchmarks.run import Table

Figure = Callable[[Lap], float]


@dataclass
class Measured:
    version: str
    laps: list[Lap] = field(default_factory=list)
    bytes_per_task: float = math.nan
    crash: Crash | None = None

    def of(self, figure: Figure) -> float:
        return median(figure(lap) for lap in self.laps)


@dataclass
class PeersResult:
    queued: int
    """Tasks in the server while its memory was measured."""
    sides: dict[str, Measured] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Who was not measured, and why."""

    # ---- who is best -----------------------------------------------------------------------

    def peers(self, *, acking: bool = False) -> dict[str, Measured]:
        return {
            name: of
            for name, of in self.sides.items()
            if name != OURS and not (acking and of.crash and not of.crash.survives)
        }

    def ours_by(self, name: str, figure: Figure) -> Ratio:
        """Our figure as a multiple of a peer's, round by round."""
        ours, theirs = self.sides[OURS].laps, self.sides[name].laps
        together = list(zip(ours, theirs, strict=False))
        return ratio(
            [round(figure(lap) * 1000) for lap, _ in together],
            [round(figure(lap) * 1000) for _, lap in together],
        )

    def best(self, figure: Figure, *, acking: bool = False) -> str | None:
        peers = self.peers(acking=acking)
        return max(peers, key=lambda name: peers[name].of(figure), default=None)

    # ---- bars ------------------------------------------------------------------------------

    def bars(self) -> list[Bar]:
        if OURS not in self.sides or not self.peers():
            return []
        return [
            self._faster(
                "drain, of the best peer that acks", lambda lap: lap.drain, 4, acking=True
            ),
            self._faster("bulk enqueue, of the best peer", lambda lap: lap.bulk, 2),
            self._faster("single enqueue, of the best peer", lambda lap: lap.single, 1),
            self._latency(),
            self._memory(),
        ]

    def _faster(self, says: str, figure: Figure, times: float, *, acking: bool = False) -> Bar:
        best = self.best(figure, acking=acking)
        if best is None:
            return Bar(says, math.nan, "≥", times)
        return Bar(f"{says} ({best})", self.ours_by(best, figure).median, "≥", times)

    def _latency(self) -> Bar:
        peers = self.peers()
        best = min(peers, key=lambda name: peers[name].of(lambda lap: lap.p99_ms))
        says = f"p99 latency at {RATE}/s, median of rounds, against the best peer ({best})"
        ours, limit = (self.sides[name].of(lambda lap: lap.p99_ms) for name in (OURS, best))
        return Bar(says, ours, "≤", round(limit, 2), "ms")

    def _memory(self) -> Bar:
        peers = self.peers()
        best = min(peers, key=lambda name: peers[name].bytes_per_task)
        says = f"server memory per queued task, against the best peer ({best})"
        limit = round(peers[best].bytes_per_task, 1)
        return Bar(says, self.sides[OURS].bytes_per_task, "≤", limit, "bytes")

    # ---- tables ----------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        tables = [self._working(), self._sending(), self._waiting()]
        if self.missing:
            tables.append(
                Table("Not measured", ("side", "why"), [(n, w) for n, w in self.missing.items()])
            )
        return tables

    def ordered(self) -> Iterable[tuple[str, Measured]]:
        """Ours, then the others by how fast they drain."""
        peers = self.peers()
        yield from ((OURS, self.sides[OURS]) for _ in range(OURS in self.sides))
        for name in sorted(peers, key=lambda name: -peers[name].of(lambda lap: lap.drain)):
            yield name, peers[name]

    def _by(self, name: str, figure: Figure) -> str:
        if name == OURS or OURS not in self.sides:
            return "1" if name == OURS else "–"
        found = self.ours_by(name, figure)
        return f"{found.median:.1f} ({found.low:.1f}–{found.high:.1f})"

    def _working(self) -> Table:
        return Table(
            "One worker process, no-op tasks",
            (
                *("side", "version", "survives kill -9", "tasks/s", "ours is ×", "worker µs"),
                *("server µs", "commands", "reads"),
            ),
            [
                (
                    name,
                    of.version,
                    str(of.crash) if of.crash else "not tried",
                    f"{of.of(lambda lap: lap.drain):,.0f}",
                    self._by(name, lambda lap: lap.drain),
                    f"{of.of(lambda lap: lap.worker_us):,.0f}",
                    f"{of.of(lambda lap: lap.server_us):,.0f}",
                    f"{of.of(lambda lap: lap.commands):.3g}",
                    f"{of.of(lambda lap: lap.reads):.2g}",
                )
                for name, of in self.ordered()
            ],
            "CPU, commands and socket reads of the server are per task; commands count those inside "
            "scripts and functions too, reads are about the round trips. A task that is only kept was "
            f"still in the server, but not run again on an idle queue within {PATIENCE:.0f} s (a quick "
            "run does not wait for that). Every task is one call of its handler: FastStream's batch "
            "subscribers, faster by far, hand a list to one call, and are not measured.",
        )

    def _sending(self) -> Table:
        return Table(
            f"Sending, and the memory of {self.queued:,} queued tasks",
            (
                *("side", "one by one/s", "ours is ×", "in bulk/s", "ours is × ", "its bulk"),
                "bytes per task",
            ),
            [
                (
                    name,
                    f"{of.of(lambda lap: lap.single):,.0f}",
                    self._by(name, lambda lap: lap.single),
                    f"{of.of(lambda lap: lap.bulk):,.0f}",
                    self._by(name, lambda lap: lap.bulk),
                    SIDES[name].bulk,
                    f"{of.bytes_per_task:,.0f}",
                )
                for name, of in self.ordered()
            ],
            "One sender, which waits for each answer; bulk is a thousand tasks in one call, where there "
            "is such a call.",
        )

    def _waiting(self) -> Table:
        return Table(
            f"From sending to the handler, at {RATE} tasks/s",
            ("side", "p50 ms", "p99 ms", "p99 of single rounds"),
            [
                (
                    name,
                    f"{of.of(lambda lap: lap.p50_ms):.2f}",
                    f"{of.of(lambda lap: lap.p99_ms):.2f}",
                    ", ".join(f"{lap.p99_ms:.2f}" for lap in of.laps),
                )
                for name, of in self.ordered()
            ],
            "The worker that has just drained its queue waits for more; the sender is another process.",
        )
