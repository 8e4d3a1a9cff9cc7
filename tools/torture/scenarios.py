"""Which fault is done to which servers, and what is promised there, as docs/guarantees.md has it.

A control breaks a rule that the promises depend on: there the checker must find what it is there to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.torture import nemesis, network, shims
from tools.torture.checker import Rules
from tools.torture.nemesis import Fault
from tools.torture.servers import Cluster, Servers, Single, Watched

# Service may be away for this much longer than the servers themselves are.
SILENCE = 2.0

_Make = Callable[[Path], Servers]
_STRICT = Rules()


@dataclass(frozen=True)
class Scenario:
    """`ways`: everything, or only consumers that are killed. `control`: the kind that must be found.
    `needs`: what a machine may lack."""

    name: str
    promise: str
    fault: str
    servers: _Make
    do: Fault
    replicas: int = 0
    rules: Rules = _STRICT
    ways: Literal["all", "consumers"] = "all"
    control: str = ""
    needs: tuple[Literal["network", "compiler"], ...] = ()

    @property
    def lacks(self) -> str:
        """Why it cannot run here, if it cannot."""
        if "network" in self.needs and not network.possible():
            return "needs a network namespace: root, or a kernel that gives users one"
        if "compiler" in self.needs and shims.compiler() is None:
            return "needs a C compiler"
        return ""


_SERVED = Rules(silence=SILENCE)
# What a primary stored and handed out before any replica had it is sent again to its successor, and known
# there under another id: guarantees.md, Failover.
_REPLACED = Rules(failover=True)
_REPLACED_SOON = Rules(failover=True, silence=SILENCE)
# What a server forgets in a power cut takes acks and leases with it.
_FORGETFUL = Rules(frozenset({"returned", "holders", "disorder", "doubled"}), forgets=3.0)
# Leases are counted by the server's clock, and end early when it leaps.
_LEAPING = Rules(frozenset({"holders"}))


def _single(durability: str, shim: str = "") -> _Make:
    return lambda folder: Single(folder, durability, shim)


ALL: tuple[Scenario, ...] = (
    Scenario(
        "cluster.kill",
        "replicas=1 of 1: nothing confirmed is lost",
        "kill -9 of a primary",
        Cluster,
        nemesis.kill,
        1,
        _REPLACED_SOON,
    ),
    Scenario(
        "cluster.pause",
        "replicas=1 of 1: nothing confirmed is lost",
        "a primary stands still, and wakes up when it was replaced",
        Cluster,
        nemesis.pause,
        1,
        _REPLACED_SOON,
    ),
    Scenario(
        "cluster.partition",
        "replicas=1 of 1: nothing confirmed is lost",
        "a primary is cut off from the other nodes; clients reach it",
        Cluster,
        nemesis.partition,
        1,
        _REPLACED_SOON,
    ),
    Scenario(
        "cluster.isolation",
        "replicas=1 of 1: nothing confirmed is lost",
        "a primary is cut off from everybody",
        Cluster,
        nemesis.isolation,
        1,
        _REPLACED_SOON,
        needs=("network",),
    ),
    Scenario(
        "cluster.rolling",
        "replicas=1 of 1: nothing confirmed is lost",
        "all nodes are restarted, one after the other",
        Cluster,
        nemesis.rolling,
        1,
    ),
    Scenario(
        "cluster.migration",
        "a queue can be moved while it is used",
        "slots move, atomically",
        Cluster,
        nemesis.migrate_atomically,
        1,
        _SERVED,
    ),
    Scenario(
        "cluster.migration-by-keys",
        "a queue can be moved while it is used",
        "slots move key by key",
        Cluster,
        nemesis.migrate_by_keys,
        1,
        _SERVED,
    ),
    Scenario(
        "cluster.replica",
        "replicas=1 of 1: what cannot be confirmed is not lost, and not counted against anybody",
        "a replica is lost, and comes back",
        Cluster,
        nemesis.lose_replica,
        1,
        _SERVED,
    ),
    Scenario(
        "cluster.promotion",
        "replicas=1 of 1: what was confirmed is what was replicated",
        "answers are lost while the replica lags; then it is promoted",
        Cluster,
        nemesis.promote_lagging,
        1,
        _REPLACED,
    ),
    Scenario(
        "cluster.anything",
        "replicas=1 of 1: nothing confirmed is lost",
        "five faults at random, at random nodes",
        Cluster,
        nemesis.anything,
        1,
        _REPLACED,
        needs=("network",),
    ),
    Scenario(
        "sentinel.kill",
        "replicas=2 of 2: nothing confirmed is lost",
        "kill -9 of the primary",
        Watched,
        nemesis.kill,
        2,
        _REPLACED_SOON,
    ),
    Scenario(
        "sentinel.pause",
        "replicas=2 of 2: nothing confirmed is lost",
        "the primary stands still, and wakes up when it was replaced",
        Watched,
        nemesis.pause,
        2,
        _REPLACED_SOON,
    ),
    Scenario(
        "sentinel.partition",
        "replicas=2 of 2: nothing confirmed is lost",
        "the primary is cut off from all but its clients",
        Watched,
        nemesis.partition,
        2,
        _REPLACED_SOON,
        needs=("network",),
    ),
    Scenario(
        "sentinel.promotion",
        "replicas=2 of 2: whichever replica is promoted has what was confirmed",
        "answers are lost while a replica lags; then it is promoted",
        Watched,
        nemesis.promote_lagging,
        2,
        _REPLACED,
    ),
    Scenario(
        "single.kill",
        "fast: kill -9 loses nothing",
        "kill -9 of the server, three times",
        _single("fast"),
        nemesis.kill_often,
        rules=_SERVED,
    ),
    Scenario(
        "single.power",
        "durable: a power cut loses nothing that was confirmed",
        "power cut, three times, also in mid rewrite",
        _single("durable", "disk"),
        nemesis.cut_power,
        needs=("compiler",),
    ),
    Scenario(
        "single.power-fast",
        "fast: a power cut loses the last seconds at most",
        "power cut, three times, also in mid rewrite",
        _single("fast", "disk"),
        nemesis.cut_power,
        rules=_FORGETFUL,
        needs=("compiler",),
    ),
    Scenario(
        "single.disk",
        "durable: a full disk loses nothing that was confirmed",
        "disk full, twice",
        _single("durable", "disk"),
        nemesis.fill_disk,
        needs=("compiler",),
    ),
    Scenario(
        "single.disk-fast",
        "fast: a full disk loses nothing that was confirmed",
        "disk full, twice",
        _single("fast", "disk"),
        nemesis.fill_disk,
        needs=("compiler",),
    ),
    Scenario(
        "single.clock",
        "time is the server's: a clock that steps loses nothing",
        "the clock steps by seconds and hours, both ways",
        _single("durable", "clock"),
        nemesis.step_clock,
        rules=_LEAPING,
        needs=("compiler",),
    ),
    Scenario(
        "single.front",
        "what a door or worker had in hand comes back",
        "kill -9 of `holdfast serve` and `holdfast worker`",
        _single("durable"),
        nemesis.kill_front,
    ),
    Scenario(
        "single.consumers",
        "at least once: what a consumer had in hand comes back",
        "kill -9 of consumers",
        _single("durable"),
        nemesis.kill_consumers,
        ways="consumers",
    ),
)

CONTROLS: tuple[Scenario, ...] = (
    Scenario(
        "control.no-replicas",
        "none: replicas=0 may lose in a failover",
        "a lagging replica is promoted",
        Cluster,
        nemesis.promote_lagging,
        0,
        control="lost",
    ),
    Scenario(
        "control.one-of-two",
        "none: replicas=1 of 2 may lose when the other one is promoted",
        "a lagging replica is promoted",
        Watched,
        nemesis.promote_lagging,
        1,
        control="lost",
    ),
    Scenario(
        "control.ack-first",
        "none: who acks before the work loses what it had in hand",
        "kill -9 of consumers that ack first",
        _single("durable"),
        nemesis.kill_consumers_that_ack_first,
        ways="consumers",
        control="lost",
    ),
)


def named(name: str) -> Scenario:
    return next(scenario for scenario in (*ALL, *CONTROLS) if scenario.name == name)
