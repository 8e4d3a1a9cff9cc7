"""The faults. Each is done to servers under load, and says in the history what it does and when.

How long a fault lasts, and whom it meets, is drawn from the seed; what is waited for is a condition.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from redis.crc import key_slot
from redis.exceptions import ResponseError

from holdfast.embedded import damage
from tools.torture import network
from tools.torture.crew import Crew
from tools.torture.front import Front
from tools.torture.history import History
from tools.torture.node import ERRORS, Node, wait_until
from tools.torture.servers import Cluster, Servers, Single


@dataclass
class Nemesis:
    """`keys`: of the places that are in use. `front`: what stands before the servers, if anything does.
    `folder`: for what it starts itself."""

    servers: Servers
    crew: Crew
    history: History
    rnd: random.Random
    folder: Path
    keys: Mapping[str, str]
    front: Front | None = None
    notes: list[str] = field(default_factory=list)

    def says(self, what: str) -> None:
        self.history.note("fault", text=what)
        self.notes.append(what)

    def hold(self, least: float, most: float) -> None:
        """Let a fault last."""
        time.sleep(self.rnd.uniform(least, most))

    def victim(self) -> Node:
        primary = self.servers.primary()
        assert primary is not None, "nobody serves"
        return primary

    def failover(self, victim: Node, seconds: float = 15.0) -> None:
        """Returns when somebody else serves."""
        wait_until(lambda: self.servers.primary() not in (None, victim), seconds, "a failover")


Fault = Callable[[Nemesis], None]


# ---- processes ----------------------------------------------------------------------------


def kill(n: Nemesis) -> None:
    victim = n.victim()
    n.says(f"kill -9 {victim}")
    victim.kill()
    if isinstance(n.servers, Single) or n.rnd.random() < 0.25:
        n.hold(0, 0.8)  # it is back before anybody has noticed
    else:
        n.failover(victim)
        n.hold(0, 1.5)
    n.servers.revive(victim)


def kill_often(n: Nemesis) -> None:
    for _ in range(3):
        kill(n)
        n.crew.flow(3)


def pause(n: Nemesis) -> None:
    victim = n.victim()
    n.says(f"pause {victim}")
    victim.pause()
    n.failover(victim)
    n.hold(0, 3)
    victim.resume()


def rolling(n: Nemesis) -> None:
    for node in n.servers.nodes:
        n.says(f"restart {node}")
        node.stop()
        n.servers.revive(node)
        wait_until(n.servers.whole, 30, f"whole after a restart of {node}")


def lose_replica(n: Nemesis) -> None:
    [replica, *_] = n.servers.replicas(n.victim())
    how = n.rnd.choice(["kill", "pause"])
    n.says(f"{how} the replica {replica}")
    if how == "kill":
        replica.kill()
    else:
        replica.pause()
    n.hold(3, 7)
    replica.resume()
    n.servers.revive(replica)


def promote_lagging(n: Nemesis) -> None:
    """A replica that has missed what was written lately becomes primary, since nobody else is left. Clients
    lose their connections meanwhile, and with them answers."""
    victim = n.victim()
    [lagging, *others] = n.servers.replicas(victim)
    n.says(f"{lagging} lags behind {victim}")
    if network.own():
        # Silently: the primary goes on to count on it.
        network.cut(victim.host, lagging.host)
    else:
        # Its link is closed at the other end, so that nothing more can lie in its socket.
        lagging.pause()
        victim.ask("CLIENT", "KILL", "TYPE", "replica")
    for _ in range(3):
        n.hold(0.3, 0.7)
        victim.ask("CLIENT", "KILL", "TYPE", "normal")
    n.hold(0.3, 0.7)
    n.says(f"kill -9 {victim} {' '.join(map(str, others))}")
    for node in (victim, *others):
        node.kill()
    lagging.resume()
    n.failover(victim)
    wait_until(n.servers.agreed, 20, "those who watch agree")
    n.servers.heal()
    for node in (victim, *others):
        n.servers.revive(node)


# ---- network ------------------------------------------------------------------------------


def _cut(n: Nemesis, *, clients: bool) -> None:
    victim = n.victim()
    n.says(f"{victim} is cut off from {'everybody' if clients else 'the other servers'}")
    n.servers.cut_off(victim, clients=clients)
    n.failover(victim)
    n.hold(0, 3)
    n.servers.heal()


def partition(n: Nemesis) -> None:
    _cut(n, clients=False)


def isolation(n: Nemesis) -> None:
    _cut(n, clients=True)


# ---- slots --------------------------------------------------------------------------------


def _slots(n: Nemesis) -> list[int]:
    """Of some places: one with groups, a shard, a topic."""
    places = ("plain", "ordered", "spread", "news")
    return [key_slot(n.keys[place].encode()) for place in places]


def _move(n: Nemesis, move: Callable[[Cluster, int, Node, Node], None]) -> None:
    cluster = n.servers
    assert isinstance(cluster, Cluster)
    for slot in _slots(n):
        source = cluster.owner(slot)
        assert source is not None, "nobody serves"
        target = n.rnd.choice([node for node in cluster.primaries() if node is not source])
        n.says(f"slot {slot} moves from {source} to {target}")
        move(cluster, slot, source, target)
        wait_until(lambda: cluster.owner(slot) is target, 20, f"slot {slot} moved")  # noqa: B023
        n.crew.flow(2)


def migrate_atomically(n: Nemesis) -> None:
    """As Valkey does since 9: all at once, at the end."""

    def move(cluster: Cluster, slot: int, source: Node, target: Node) -> None:
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.id(target))

    _move(n, move)


def migrate_by_keys(n: Nemesis) -> None:
    """As `valkey-cli --cluster reshard` does, and before Valkey 9 everybody: key by key, while the slot is at
    two nodes."""

    def move(cluster: Cluster, slot: int, source: Node, target: Node) -> None:
        n.history.note("leaves")
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.id(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.id(target))
        # Whoever moves slots repairs with REPLACE what is there already, and does not do so for ever.
        patience, give_up = time.monotonic() + 2, time.monotonic() + 8
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10):
            key, late = n.rnd.choice(keys), time.monotonic() > patience
            more = ("REPLACE",) if late else ()
            with suppress(ResponseError):
                source.ask("MIGRATE", target.host, target.port, key, 0, 2_000, *more, timeout=5)
            if time.monotonic() > give_up:
                n.notes.append(f"{len(keys)} keys of slot {slot} cannot be moved")
                break
            time.sleep(0.03)  # a network has a round trip
        for node in (target, source, *cluster.primaries()):
            with suppress(ResponseError):  # one that still has keys refuses
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", cluster.id(target))
        n.history.note("arrives")

    _move(n, move)


# ---- disk and clock -----------------------------------------------------------------------


def _single(n: Nemesis) -> Single:
    assert isinstance(n.servers, Single)
    return n.servers


def cut_power(n: Nemesis) -> None:
    """Three times; now and then while the append-only file is rewritten."""
    servers = _single(n)
    assert servers.disk is not None
    for _ in range(3):
        if n.rnd.random() < 0.5:
            with suppress(ResponseError):  # it may be at it already
                servers.node.ask("BGREWRITEAOF")
            n.hold(0, 0.05)
        servers.node.kill()
        n.says("power cut")  # from here on nothing can be stored that it takes away
        gone = servers.disk.cut_power(servers.node.folder, n.rnd)
        n.notes.append(f"{gone} bytes were not on the disk")
        _start_after_cut(n, servers)
        n.crew.flow(5)


def _start_after_cut(n: Nemesis, servers: Single) -> None:
    """What was not written out in time may leave a hole that keeps the server from starting: guarantees.md
    says what to do then. A durable one starts by itself."""
    try:
        servers.node.start()
    except RuntimeError as error:
        if servers.durability == "durable" or not damage.advice(str(error)):
            raise
        cuts = damage.repair(servers.node.folder).cuts
        n.notes.append(f"`holdfast doctor --repair` cut {len(cuts)} files")
        servers.node.start()


def fill_disk(n: Nemesis) -> None:
    """A durable server ends, a fast one refuses; both must be back as they were when there is room."""
    servers = _single(n)
    assert servers.disk is not None
    for _ in range(2):
        n.says("disk full")
        servers.disk.fill()
        n.hold(0.5, 1.5)
        servers.disk.make_room()
        if servers.node.alive:
            # It tries again every second.
            wait_until(
                lambda: servers.node.info("persistence")["aof_last_write_status"] == "ok",
                10,
                "room",
            )
        servers.revive(servers.node)
        n.crew.flow(5)


def step_clock(n: Nemesis) -> None:
    """Back and forth, by seconds and by an hour; at last where it never was before, so that nothing waits."""
    clock = _single(n).clock
    assert clock is not None
    steps = [n.rnd.choice([-3600.0, -5.0, 5.0, 3600.0]) for _ in range(4)]
    for step in steps:
        n.says(f"clock {step:+g} s")
        clock.set(clock.offset + step)
        n.crew.flow(4)
    last = 3600.0 * 5
    n.says(f"clock {last:+g} s")
    clock.set(last)
    n.crew.flow(4)


# ---- those in front -----------------------------------------------------------------------


def kill_front(n: Nemesis) -> None:
    """The server's doors, and the worker, with whatever they have in hand."""
    assert n.front is not None
    n.says("kill -9 of the doors")
    n.front.kill_doors()
    n.hold(0, 1)
    n.front.open_doors()
    n.crew.flow(3)
    n.says("kill -9 of the worker")
    n.front.replace_worker()
    n.crew.flow(3)


def _kill_consumers(n: Nemesis, how: str) -> None:
    """Each when it has worked on some of what it took, and has some of it left."""
    place = "killed"
    module = [sys.executable, "-m", "tools.torture.consumer"]
    for k in range(4):
        n.crew.flow(20)
        notes = n.folder / "history" / f"consumer-{k}.jsonl"
        consumer = subprocess.Popen([*module, n.crew.options.url, place, place, str(notes), how])
        try:
            wait_until(lambda: notes.exists() and notes.read_bytes().count(b"\n") >= 3, 30, "work")  # noqa: B023
            n.hold(0, 0.3)
            n.says("kill -9 of a consumer")
        finally:
            consumer.kill()
            consumer.wait()


def kill_consumers(n: Nemesis) -> None:
    _kill_consumers(n, "work-first")


def kill_consumers_that_ack_first(n: Nemesis) -> None:
    _kill_consumers(n, "ack-first")


# ---- all of it ----------------------------------------------------------------------------


def anything(n: Nemesis) -> None:
    """Five faults, one after the other, at whichever node; the next may come before all is whole."""
    servers = n.servers
    for _ in range(5):
        node = n.rnd.choice(servers.nodes)
        what = n.rnd.choice(["kill", "kill", "pause", "partition", "isolation", "kick", "move"])
        n.says(f"{what} {node}")
        try:
            if what == "kill":
                node.kill()
                n.hold(0, 3)
                servers.revive(node)
            elif what == "pause":
                node.pause()
                n.hold(0.2, 3)
                node.resume()
            elif what == "kick":
                node.ask("CLIENT", "KILL", "TYPE", "normal")
            elif what == "move" and isinstance(servers, Cluster):
                _move_somewhere(n, servers)
            else:
                servers.cut_off(node, clients=what == "isolation")
                n.hold(0.5, 3)
                servers.heal()
        except (*ERRORS, TimeoutError) as error:
            n.notes.append(f"{what} failed: {error}")  # a node in trouble cannot be told anything
        n.hold(0, 1.5)


def _move_somewhere(n: Nemesis, cluster: Cluster) -> None:
    slot = _slots(n)[0]
    source = cluster.owner(slot)
    others = [node for node in cluster.primaries() if node is not source]
    if source and others:
        target = cluster.id(n.rnd.choice(others))
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target)
