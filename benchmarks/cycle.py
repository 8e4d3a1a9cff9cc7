"""send, receive and ack by batch size, against raw lists and raw Streams: the main table.

One round of a side sends some batches, receives them all, acks them all. Their sum is the full
cycle. What comes back is compared with what was sent, outside the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.bars import Bar
from benchmarks.rounds import Laps, Ratio, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.servers import MODES, Server, running
from benchmarks.sides import Holdfast, RawLists, RawStreams, Side

LISTS, STREAMS, OURS = "raw lists", "raw Streams", "Holdfast"
PHASES = ("send", "receive", "ack")
BATCHES = (1, 10, 100, 1000)

# Batches in one round: so many that a round takes some tens of ms.
_PER_ROUND = {1: 40, 10: 20, 100: 8, 1000: 2}

_CALLS = ("cmdstat_fcall",)
_COMMANDS = tuple(f"cmdstat_{c}" for c in ("rpush", "lpop", "xadd", "xreadgroup", "xack", "xdel"))


@dataclass(frozen=True)
class Row:
    """One batch size in one mode."""

    mode: str
    batch: int
    rounds: Rounds
    server_us: dict[str, float]
    """The server's own time for a message's full cycle, by side."""
    to_lists: dict[str, Ratio]
    to_streams: dict[str, Ratio]


@dataclass(frozen=True)
class CycleResult:
    rows: list[Row]

    def tables(self) -> list[Table]:
        return [self._throughput(mode) for mode in dict.fromkeys(row.mode for row in self.rows)]

    def _throughput(self, mode: str) -> Table:
        lines: list[tuple[str, ...]] = []
        for row in (row for row in self.rows if row.mode == mode):
            for phase, phases in _named_phases():
                lines.append(
                    (
                        f"{row.batch:,}" if phase == "send" else "",
                        phase,
                        _speed(row.rounds, LISTS, phases),
                        _speed(row.rounds, STREAMS, phases),
                        _speed(row.rounds, OURS, phases),
                        _shown(row.to_lists, phase),
                        _shown(row.to_streams, phase),
                        " / ".join(f"{row.server_us[side]:.1f}" for side in (LISTS, STREAMS, OURS))
                        if phase == "full cycle"
                        else "",
                    )
                )
        return Table(
            f"Throughput, mode {mode} ({MODES[mode]})",
            (
                "batch",
                "what",
                f"{LISTS}/s",
                f"{STREAMS}/s",
                f"{OURS}/s",
                "× lists",
                "× Streams",
                "server µs",
            ),
            lines,
            f"Messages a second, {BODY_BYTES}-byte bodies, one client process. Lists have no ack. × is "
            "the median of the rounds' own ratios, with its quartiles: more is faster. Server µs: its "
            "own time per message for lists / Streams / Holdfast.",
        )

    def bars(self) -> list[Bar]:
        bars = []
        for row in self.rows:
            mode = f"({row.mode})"
            if row.batch == 100:
                bars += [
                    Bar(
                        f"full cycle by 100, of RPUSH + LPOP {mode}",
                        row.to_lists["full cycle"].median,
                        "≥",
                        0.35,
                        aim=0.5,
                    ),
                    Bar(
                        f"full cycle by 100, of Streams {mode}",
                        row.to_streams["full cycle"].median,
                        "≥",
                        1.5,
                    ),
                ]
            if row.batch == 1:
                single = row.to_lists["send"].median
                bars.append(Bar(f"single send, of single RPUSH {mode}", single, "≥", 0.7))
        return bars


def measure(run: Run) -> CycleResult:
    rows = []
    for mode in MODES:
        with running(mode) as server:
            sides: dict[str, Side] = {
                LISTS: RawLists(server),
                STREAMS: RawStreams(server),
                OURS: Holdfast(server),
            }
            try:
                rows += [_row(run, server, sides, batch) for batch in BATCHES]
            finally:
                for side in sides.values():
                    side.close()
    return CycleResult(rows)


def _row(run: Run, server: Server, sides: dict[str, Side], batch: int) -> Row:
    per_round = run.choose(_PER_ROUND[batch], 1)
    batches = [run.bodies(batch) for _ in range(per_round)]
    count = run.choose(60 if server.mode == "fast" else 40, 2)
    with run.step(f"cycle, {server.mode}, batches of {batch}", count + 1) as tick:
        rounds = interleave(
            {name: partial(one_round, side, batches) for name, side in sides.items()},
            messages=batch * per_round,
            rounds=count,
            rng=run.rng,
            tick=tick,
        )
        spent = {
            name: _server_time(server, partial(one_round, side, batches)) / (batch * per_round)
            for name, side in sides.items()
        }
    return Row(
        server.mode,
        batch,
        rounds,
        spent,
        {
            phase: rounds.speed(OURS, LISTS, phases)
            for phase, phases in _named_phases()
            if phases != ("ack",)
        },
        {phase: rounds.speed(OURS, STREAMS, phases) for phase, phases in _named_phases()},
    )


def one_round(side: Side, batches: list[list[bytes]]) -> Laps:
    clock = time.perf_counter_ns
    started = clock()
    for bodies in batches:
        side.send(bodies)
    sent = clock()
    got = [side.receive(len(bodies)) for bodies in batches]
    received = clock()
    for held, _ in got:
        side.ack(held)
    acked = clock()
    if [bodies for _, bodies in got] != batches:
        raise RuntimeError(f"{type(side).__name__} did not hand out what it was given, in order")
    return dict(zip(PHASES, (sent - started, received - sent, acked - received), strict=True))


def _server_time(server: Server, work: Callable[[], Any], times: int = 5) -> float:
    """µs of the server's time that one call of `work` takes, in the mean of several.

    What a function calls is counted with the function, so only what clients sent is added up.
    """
    with server.connect() as client:
        client.config_resetstat()
        for _ in range(times):
            work()
        stats: dict[str, Any] = client.info("commandstats")
    sent = _CALLS if "cmdstat_fcall" in stats else _COMMANDS
    return float(sum(stats[name]["usec"] for name in sent if name in stats) / times)


def _named_phases() -> list[tuple[str, tuple[str, ...]]]:
    return [*((phase, (phase,)) for phase in PHASES), ("full cycle", ())]


def _speed(rounds: Rounds, side: str, phases: tuple[str, ...]) -> str:
    if side == LISTS and phases == ("ack",):
        return "–"
    return f"{rounds.per_second(side, phases):,.0f}"


def _shown(ratios: dict[str, Ratio], phase: str) -> str:
    found = ratios.get(phase)
    return "–" if found is None else f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"
