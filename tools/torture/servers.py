"""The servers that are tortured: one node, a primary that Sentinels watch, a cluster of three with replicas.

All of them offer the nemesis the same few things: who is primary now, its replicas, cutting, healing,
mending, and whether all is whole. Every node has an address of its own (127.0.0.11, .12 …), by which
it is cut off.
"""

from __future__ import annotations

import secrets
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from redis.crc import key_slot

from holdfast.embedded import server
from holdfast.engine.keys import QueueRef, TopicRef
from tools.torture import network
from tools.torture.node import ERRORS, Node, wait_until
from tools.torture.shims import Clock, Disk

# What a failover takes is this, and about as much again.
FAILOVER_MS = 1_000
_SLOTS = 16_384
_MASTER = "holdfast"
_COMMON: dict[str, server.Setting] = {
    "repl-diskless-sync-delay": 0,
    "repl-timeout": 10,
    "enable-debug-command": "yes",
    "io-threads": 1,
}


class Servers(ABC):
    """`offset`: seconds that the servers' clock is ahead of ours."""

    nodes: list[Node]
    url: str

    @abstractmethod
    def primary(self) -> Node | None:
        """Who serves the place that is tortured, as most of those who answer say."""

    def replicas(self, of: Node) -> list[Node]:
        """Those that work, and follow this node."""
        found = []
        for node in self.nodes:
            if node is not of and node.works:
                try:
                    said = node.info("replication")
                except ERRORS:
                    continue
                if (said.get("master_host"), said.get("master_port")) == (of.host, str(of.port)):
                    found.append(node)
        return found

    def agreed(self) -> bool:
        """Whether all who say who serves have come to say the same."""
        return True

    def cut_off(self, node: Node, *, clients: bool) -> None:
        """Nothing passes between this node and the others; with `clients`, nor between it and anybody."""
        raise NotImplementedError

    def heal(self) -> None:
        if network.own():
            network.heal()

    def revive(self, node: Node) -> None:
        """Start one that was killed, as it would be in this setting."""
        if not node.alive:
            node.start()

    def mend(self) -> None:
        """Undo all that was done, and wait until all is whole."""
        self.heal()
        for node in self.nodes:
            node.resume()
        for node in self.nodes:
            self.revive(node)
        wait_until(self.whole, 40, "all servers whole")

    @abstractmethod
    def whole(self) -> bool: ...

    @property
    def offset(self) -> float:
        return 0.0

    def near(self, base: str, *, topic: bool = False) -> str:
        """A name of that queue or topic that lies where it is tortured."""
        return base

    def close(self) -> None:
        for node in self.nodes:
            node.kill()


class Single(Servers):
    """One node. `disk` and `clock`: shims, if it runs with one."""

    def __init__(self, folder: Path, durability: str, shim: str = "") -> None:
        self.durability = durability
        self.disk = Disk(folder) if shim == "disk" else None
        self.clock = Clock(folder) if shim == "clock" else None
        shimmed = self.disk or self.clock
        data = folder / "node"
        settings = server.options(data, durability) | {
            "enable-debug-command": "yes",
            "auto-aof-rewrite-min-size": "256kb",
            "auto-aof-rewrite-percentage": 30,
        }
        program = shimmed.program if shimmed else None
        node = Node(data, "127.0.0.11", free_port(["127.0.0.11"]), settings, program=program)
        self.node = node
        self.nodes = [node]
        self.url = f"redis://{node.address}"
        node.start()

    def primary(self) -> Node | None:
        return self.node

    def whole(self) -> bool:
        return bool(self.node.ask("PING"))

    @property
    def offset(self) -> float:
        return self.clock.offset if self.clock else 0.0


class Watched(Servers):
    """A primary with two replicas, and three Sentinels."""

    def __init__(self, folder: Path, replicas: int = 2) -> None:
        hosts = [f"127.0.0.{11 + n}" for n in range(1 + replicas)]
        watchers = [f"127.0.0.{21 + n}" for n in range(3)]
        port = free_port(hosts + watchers)
        first = hosts[0]
        self.nodes = []
        for n, host in enumerate(hosts):
            data = folder / f"node-{n}"
            settings = server.options(data, "durable") | _COMMON
            settings |= {"bind-source-addr": host, "replica-announce-ip": host}
            self.nodes.append(Node(data, host, port, settings))
        for node in self.nodes:
            self._spawn(node, None if node.host == first else self.nodes[0])
        for node in self.nodes:
            node.wait()
        wait_until(lambda: len(self.replicas(self.nodes[0])) == replicas, 20, "replicas")
        self.sentinels = [
            self._sentinel(folder / f"sentinel-{n}", host, port, first)
            for n, host in enumerate(watchers)
        ]
        listed = ",".join(f"{watcher.host}:{watcher.port}" for watcher in self.sentinels)
        self.url = f"redis+sentinel://{listed}/{_MASTER}"
        wait_until(self.whole, 30, "Sentinels know all")

    def _sentinel(self, folder: Path, host: str, port: int, watched: str) -> Node:
        folder.mkdir(parents=True)
        config = folder / "sentinel.conf"
        config.write_text(
            f"sentinel announce-ip {host}\n"
            f"sentinel monitor {_MASTER} {watched} {port} 2\n"
            f"sentinel down-after-milliseconds {_MASTER} {FAILOVER_MS}\n"
            f"sentinel failover-timeout {_MASTER} 4000\n"
        )
        settings: dict[str, server.Setting] = {
            "sentinel": (),
            "dir": folder,
            "bind-source-addr": host,
        }
        node = Node(folder, host, port, settings, config=config)
        node.start()
        return node

    def _spawn(self, node: Node, primary: Node | None) -> None:
        node.spawn({"replicaof": (primary.host, str(primary.port))} if primary else None)

    def primary(self) -> Node | None:
        votes: Counter[str] = Counter()
        for watcher in self.sentinels:
            try:
                host, _ = watcher.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", _MASTER, timeout=0.5)
                votes[host.decode()] += 1
            except (*ERRORS, TypeError):
                continue
        return _named(self.nodes, votes)

    def agreed(self) -> bool:
        """Else one of them may go on to promote somebody else."""
        said = [self._said(watcher) for watcher in self.sentinels]
        return len({(each[b"ip"], each[b"port"], each[b"flags"]) for each in said}) == 1 and (
            said[0][b"flags"] == b"master"
        )

    def _said(self, watcher: Node) -> dict[bytes, bytes]:
        told = watcher.ask("SENTINEL", "MASTER", _MASTER)
        return dict(zip(told[::2], told[1::2], strict=True))

    def cut_off(self, node: Node, *, clients: bool) -> None:
        for other in [*self.nodes, *self.sentinels]:
            if other is not node:
                network.cut(node.host, other.host)
        if clients:
            network.cut(node.host, "127.0.0.1")

    def revive(self, node: Node) -> None:
        """As whoever runs Sentinel does: one that was replaced comes back as a replica."""
        if not node.alive:
            primary = self.primary()
            self._spawn(node, primary if primary is not node else None)
            node.wait()

    def mend(self) -> None:
        self.heal()
        for node in self.nodes:
            node.resume()
        for node in self.nodes:
            self.revive(node)
        # Sentinel takes ten seconds to tell a primary that it was replaced.
        primary = self.primary()
        for node in self.nodes:
            if primary and node is not primary and node.info("replication")["role"] == "master":
                node.ask("REPLICAOF", primary.host, primary.port)
        wait_until(self.whole, 40, "all servers whole")

    def whole(self) -> bool:
        primary = self.primary()
        if primary is None or primary.info("replication")["role"] != "master":
            return False
        online = primary.info("replication")
        replicas = [
            line
            for name, line in online.items()
            if name.startswith("slave") and "state=online" in line
        ]
        if len(replicas) != len(self.nodes) - 1:
            return False
        for watcher in self.sentinels:
            said = self._said(watcher)
            if int(said[b"num-other-sentinels"]) != 2 or said[b"flags"] != b"master":
                return False
            followers = watcher.ask("SENTINEL", "REPLICAS", _MASTER)
            if len(followers) != len(self.nodes) - 1:
                return False
        return True

    def close(self) -> None:
        for watcher in self.sentinels:
            watcher.kill()
        super().close()


class Cluster(Servers):
    """Three primaries, each with a replica. Born whole: each node finds in its folder what it would have
    learned from the others."""

    def __init__(self, folder: Path, primaries: int = 3) -> None:
        count = 2 * primaries
        hosts = [f"127.0.0.{11 + n}" for n in range(count)]
        port = free_port(hosts)
        self._cut: set[Node] = set()
        self._ids = [secrets.token_hex(20) for _ in hosts]
        self._primaries = primaries
        self.nodes = []
        for n, host in enumerate(hosts):
            data = folder / f"node-{n}"
            settings = server.options(data, "durable") | _COMMON
            settings |= {
                "cluster-enabled": "yes",
                "cluster-node-timeout": FAILOVER_MS,
                "cluster-allow-replica-migration": "no",
                "cluster-announce-ip": host,
                "bind-source-addr": host,
            }
            self.nodes.append(Node(data, host, port, settings))
            (data / "nodes.conf").write_text(self._born(n, hosts, port))
        self.url = "redis://" + ",".join(node.address for node in self.nodes)
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            node.wait()
        wait_until(self.whole, 30, "the cluster whole")
        self._slot = key_slot(QueueRef("plain").key.encode())

    def _born(self, me: int, hosts: list[str], port: int) -> str:
        """A nodes.conf in which everybody knows everybody."""
        lines = []
        for n, host in enumerate(hosts):
            first = n % self._primaries
            start, end = (_SLOTS * (first + i) // self._primaries for i in (0, 1))
            role = f"master - 0 0 {first + 1} connected {start}-{end - 1}"
            if n >= self._primaries:
                role = f"slave {self._ids[first]} 0 0 {first + 1} connected"
            myself = "myself," if n == me else ""
            address = f"{host}:{port}@{port + 10_000},,tls-port=0,shard-id={self._ids[first]}"
            lines.append(f"{self._ids[n]} {address} {myself}{role}")
        return "\n".join([*lines, f"vars currentEpoch {self._primaries} lastVoteEpoch 0", ""])

    def _maps(self) -> list[list[tuple[int, int, str]]]:
        """First slot, last slot and primary, as each of those sees them who can be asked."""
        found = []
        for node in self.nodes:
            if node.works and node not in self._cut:
                try:
                    said = node.ask("CLUSTER", "SLOTS", timeout=0.4)
                except ERRORS:
                    continue
                found.append([(first, last, at[0].decode()) for first, last, at, *_ in said])
        return found

    def owner(self, slot: int) -> Node | None:
        return _owner(self.nodes, self._maps(), slot)

    def primary(self) -> Node | None:
        return self.owner(self._slot)

    def primaries(self) -> list[Node]:
        hosts = {host for seen in self._maps()[:1] for _, _, host in seen}
        return [node for node in self.nodes if node.host in hosts]

    def id(self, node: Node) -> str:
        return self._ids[self.nodes.index(node)]

    def cut_off(self, node: Node, *, clients: bool) -> None:
        self._cut.add(node)
        if not network.own():
            node.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -2)
            return
        for other in self.nodes:
            if other is not node:
                network.cut(node.host, other.host)
        # A node tries again without an address of its own where that one does not work.
        network.cut_port(node.port + 10_000)
        if clients:
            network.cut(node.host, "127.0.0.1")

    def heal(self) -> None:
        super().heal()
        if not network.own():
            for node in self._cut:
                node.ask("DEBUG", "DROP-CLUSTER-PACKET-FILTER", -1)
        self._cut.clear()

    def whole(self) -> bool:
        serving = 0
        for node in self.nodes:
            if b"cluster_state:ok" not in node.ask("CLUSTER", "INFO"):
                return False
            said = node.info("replication")
            if said["role"] == "slave":
                if said["master_link_status"] != "up":
                    return False
                continue
            serving += 1
            if not any(
                name.startswith("slave") and "online" in line for name, line in said.items()
            ):
                return False
        return serving == self._primaries

    def near(self, base: str, *, topic: bool = False) -> str:
        maps = self._maps()
        primary = _owner(self.nodes, maps, self._slot)
        make: Callable[[str], QueueRef | TopicRef] = TopicRef if topic else QueueRef
        for name in (f"{base}{n or ''}" for n in range(1_000)):
            if _owner(self.nodes, maps, key_slot(make(name).key.encode())) is primary:
                return name
        raise LookupError(base)


def _owner(nodes: list[Node], maps: list[list[tuple[int, int, str]]], slot: int) -> Node | None:
    votes = Counter(host for seen in maps for first, last, host in seen if first <= slot <= last)
    return _named(nodes, votes)


def _named(nodes: list[Node], votes: Counter[str]) -> Node | None:
    if not votes:
        return None
    host = votes.most_common(1)[0][0]
    return next((node for node in nodes if node.host == host), None)


def free_port(hosts: list[str]) -> int:
    """One that is free at all these addresses, as is the port of its cluster bus."""

    def free(host: str, port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, port)) != 0

    while True:
        port = 11_000 + secrets.randbelow(9_000)
        if all(free(host, p) for host in hosts for p in (port, port + 10_000)):
            return port
