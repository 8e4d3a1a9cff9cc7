"""Real servers for tests: standalone, cluster, replica, Sentinel, from the binary we ship.

Each function is a context manager over a temporary folder. Every server dies with the process
that started it, even by kill -9, and is stopped by its own handle, never by name.

    standalone(tmp)            the URL of one server
    standalone_server(tmp)     the same as a `Server`, to kill -9 and start again
    debian_redis(tmp)          the URL of the redis-server found on PATH, or None
    cluster(tmp)               [(host, port), …] of the primaries; cluster_nodes: as `Server`s
    cluster_with_a_replica(tmp)  the primaries, and a replica of the first
    primary_with_replica(tmp)  a `Replicated`, in sync
    sentinel(tmp)              a `Watched`: the same, watched by one Sentinel

Waiting is always `wait_until(condition, timeout, what)`. Start servers from a thread that lives
as long as they shall (a test or a fixture, not a worker thread): the kernel ends them with it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import redis

from holdfast.embedded import binary, log, server
from holdfast.embedded.folder import Folder
from holdfast.embedded.server import Setting

T = TypeVar("T")

HOST = "127.0.0.1"
MASTER_NAME = "mymaster"
SLOTS = 16_384

# Below the range that the kernel hands out to outgoing connections, and so that no port of ours
# can be the cluster bus (port + 10000) of another.
_PORTS = range(11_000, 21_000)
_BUS = 10_000
_ATTEMPTS = 10


def wait_until(condition: Callable[[], T], timeout: float = 10.0, what: str = "the condition") -> T:
    """The first true answer of `condition`; AssertionError when none came in `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s (last answer: {answer!r})")
        time.sleep(0.01)


class DidNotStartError(Exception):
    """The server ended before it answered; the text is the end of its log."""


class Server:
    """One server that can be killed and started again at the same address with the same data."""

    def __init__(
        self,
        folder: Path,
        address: server.Address,
        settings: dict[str, Setting],
        *,
        program: Path | None = None,
        config: Path | None = None,
    ) -> None:
        self.folder = folder
        self.address = address
        self._settings = settings | _listen(address)
        self._program = program or binary()
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        if isinstance(self.address, Path):
            return "unix://" + quote(str(self.address))
        return f"redis://{HOST}:{self.port}"

    @property
    def port(self) -> int:
        assert not isinstance(self.address, Path), "this server listens on a unix socket"
        return self.address[1]

    @property
    def pid(self) -> int:
        assert self._process is not None, "this server is not running"
        return self._process.pid

    def start(self, timeout: float = 20.0) -> None:
        """Returns when it serves, its data loaded."""
        output = self.folder / "server.log"
        said = log.size(output)
        process = server.spawn(self._program, self._settings, output, config=self._config)
        try:
            wait_until(
                lambda: process.poll() is not None or self._answers(), timeout, f"start {self.url}"
            )
            # Another server may have taken the port between our look and its bind().
            if process.poll() is not None or self.info("server")["process_id"] != process.pid:
                raise DidNotStartError(f"exit {process.poll()}: {log.last_lines(output, said)}")
        except BaseException:
            server.stop(process)
            raise
        self._process = process

    def pause(self) -> None:
        """It keeps its connections, and says nothing more."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9: whatever it has not written by now is lost."""
        assert self._process is not None, "this server is not running"
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """An orderly end; nothing happens when it does not run."""
        if self._process is not None:
            self.resume()
            server.stop(self._process)
            self._process = None

    def restart(self) -> None:
        """kill -9 and start again, with the data that reached the disk."""
        self.kill()
        self.start()

    def ask(self, *words: str | int) -> Any:
        """The answer to one command, over a connection of its own."""
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            return client.execute_command(*words)

    def raw(self, *words: str | bytes | int) -> Any:
        """The same, as the server says it."""
        with redis.Redis.from_url(self.url) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def info(self, section: str) -> dict[str, Any]:
        answer = self.ask("INFO", section)
        assert isinstance(answer, dict)
        return answer

    def is_primary(self) -> bool:
        """Its role now. While Sentinel promotes a replica, the replica drops its connections."""
        try:
            return bool(self.info("replication")["role"] == "master")
        except redis.ConnectionError:
            return False

    def _answers(self) -> bool:
        return server.ping(self.address) == "ready"


@dataclass(frozen=True)
class Replicated:
    primary: Server
    replica: Server


@dataclass(frozen=True)
class Watched:
    """Connect with redis.sentinel.Sentinel([watched.address]).master_for(watched.name)."""

    sentinel: Server
    primary: Server
    replica: Server
    name: str = MASTER_NAME

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self.sentinel.port


@contextmanager
def standalone(tmp: Path, durability: str = "fast", **options: str | int) -> Iterator[str]:
    """The URL of a server on a unix socket: standalone(tmp, maxmemory="10mb")."""
    with standalone_server(tmp, durability, **options) as running:
        yield running.url


@contextmanager
def standalone_server(
    tmp: Path, durability: str = "fast", **options: str | int
) -> Iterator[Server]:
    with _on_unix_socket(tmp / "standalone", durability, options) as running:
        yield running


@contextmanager
def on_a_port(tmp: Path) -> Iterator[str]:
    """The URL of a server on a port, for clients that know no unix sockets."""
    with _onfree_port(tmp / "port", {}) as running:
        yield running.url


@contextmanager
def debian_redis(tmp: Path, durability: str = "fast", **options: str | int) -> Iterator[str | None]:
    """The URL of the distribution's Redis; None where there is none, so that the test can skip."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with _on_unix_socket(tmp / "redis", durability, options, Path(program)) as running:
        yield running.url


@contextmanager
def cluster(tmp: Path, primaries: int = 3) -> Iterator[list[tuple[str, int]]]:
    """The addresses of a cluster whose every node knows all the slots."""
    with cluster_nodes(tmp, primaries) as nodes:
        yield [(HOST, node.port) for node in nodes]


@contextmanager
def cluster_nodes(
    tmp: Path, primaries: int = 3, node_timeout: int = 5_000
) -> Iterator[list[Server]]:
    """The same as servers, to be asked, paused or killed."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(_onfree_port(tmp / f"node-{number}", _in_cluster(node_timeout)))
            for number in range(primaries)
        ]
        for number, node in enumerate(nodes):
            first, end = SLOTS * number // primaries, SLOTS * (number + 1) // primaries
            node.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
            node.ask("CLUSTER ADDSLOTSRANGE", first, end - 1)
        for node in nodes[1:]:
            nodes[0].ask("CLUSTER MEET", HOST, node.port)
        for node in nodes:
            wait_until(partial(_sees_the_whole_cluster, node, primaries), 30, "the cluster whole")
        yield nodes


@contextmanager
def cluster_with_a_replica(tmp: Path) -> Iterator[tuple[list[Server], Server]]:
    """Three primaries, and a replica of the first, which takes over soon after that one is gone."""
    with (
        cluster_nodes(tmp, node_timeout=1_000) as nodes,
        _onfree_port(tmp / "replica", _in_cluster(1_000)) as replica,
    ):
        replica.ask("CLUSTER MEET", HOST, nodes[0].port)
        for node in (*nodes, replica):
            wait_until(partial(_sees_the_whole_cluster, node, 4), 30, "the cluster whole")
        replica.ask("CLUSTER REPLICATE", nodes[0].ask("CLUSTER MYID"))
        both = Replicated(nodes[0], replica)
        wait_until(lambda: _in_sync(both), 20, "the replica in sync")
        # Who is elected must know all slots, and be known by all as a replica.
        for node in nodes:
            wait_until(partial(_knows_a_replica, node), 20, "all know the replica")
        yield nodes, replica


@contextmanager
def primary_with_replica(tmp: Path) -> Iterator[Replicated]:
    """Two servers; the replica has received everything and stays connected."""
    with (
        _onfree_port(tmp / "primary", {"repl-diskless-sync-delay": 0}) as primary,
        _onfree_port(
            tmp / "replica",
            {"replicaof": (HOST, str(primary.port)), "repl-diskless-sync-delay": 0},
        ) as replica,
    ):
        both = Replicated(primary, replica)
        wait_until(lambda: _in_sync(both), 20, "the replica in sync")
        yield both


@contextmanager
def another_replica(tmp: Path, both: Replicated) -> Iterator[Server]:
    """One that is in sync too."""
    settings: dict[str, Setting] = {"replicaof": (HOST, str(both.primary.port))}
    with _onfree_port(tmp / "another", settings | {"repl-diskless-sync-delay": 0}) as replica:
        wait_until(lambda: replica.info("replication")["master_link_status"] == "up", 20, "it")
        yield replica


@contextmanager
def sentinel(tmp: Path) -> Iterator[Watched]:
    """A primary and its replica, and one Sentinel that alone decides on a failover."""
    with primary_with_replica(tmp) as both:
        folder = tmp / "sentinel"
        folder.mkdir()
        config = folder / "sentinel.conf"  # a file, since Sentinel keeps its state in it
        config.write_text(
            f"sentinel monitor {MASTER_NAME} {HOST} {both.primary.port} 1\n"
            f"sentinel down-after-milliseconds {MASTER_NAME} 1000\n"
            f"sentinel failover-timeout {MASTER_NAME} 3000\n"
        )
        with _started(
            lambda: Server(
                folder, (HOST, free_port()), {"sentinel": (), "dir": folder}, config=config
            )
        ) as watcher:
            watched = Watched(watcher, both.primary, both.replica)
            wait_until(lambda: _knows_the_replica(watched), 20, "Sentinel knows the replica")
            yield watched


@contextmanager
def _on_unix_socket(
    folder: Path, durability: str, options: dict[str, str | int], program: Path | None = None
) -> Iterator[Server]:
    settings = server.options(folder, durability)
    settings |= {name.replace("_", "-"): value for name, value in options.items()}
    with _started(lambda: Server(folder, Folder(folder).socket(), settings, program=program)) as it:
        yield it


@contextmanager
def _onfree_port(folder: Path, settings: dict[str, Setting]) -> Iterator[Server]:
    chosen = server.options(folder, "fast") | settings
    with _started(lambda: Server(folder, (HOST, free_port()), chosen)) as running:
        yield running


@contextmanager
def _started(make: Callable[[], Server]) -> Iterator[Server]:
    """Starts what `make` makes; makes another one when a port was taken in the meantime."""
    for attempt in range(1, _ATTEMPTS + 1):
        running = make()
        try:
            running.start()
            break
        except DidNotStartError:
            if attempt == _ATTEMPTS or isinstance(running.address, Path):
                raise
    try:
        yield running
    finally:
        running.stop()


def _listen(address: server.Address) -> dict[str, Setting]:
    if isinstance(address, Path):
        return {"port": 0, "unixsocket": address, "unixsocketperm": "700"}
    return {"bind": address[0], "port": address[1]}


def free_port() -> int:
    """A port that is free now, and whose cluster bus port is too."""

    def free(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((HOST, port)) != 0

    while True:
        port = _PORTS[secrets.randbelow(len(_PORTS))]
        if free(port) and free(port + _BUS):
            return port


def _sees_the_whole_cluster(node: Server, primaries: int) -> bool:
    seen = node.ask("CLUSTER INFO")
    return (
        seen["cluster_state"] == "ok"
        and int(seen["cluster_known_nodes"]) == primaries
        and int(seen["cluster_slots_ok"]) == SLOTS
    )


def _in_cluster(node_timeout: int) -> dict[str, Setting]:
    return {
        "cluster-enabled": "yes",
        "cluster-node-timeout": node_timeout,
        "cluster-announce-ip": HOST,
        "repl-diskless-sync-delay": 0,
    }


def _knows_a_replica(node: Server) -> bool:
    return "slave" in str(node.raw("CLUSTER", "NODES"))


def _in_sync(both: Replicated) -> bool:
    return (
        both.replica.info("replication").get("master_link_status") == "up"
        and both.primary.info("replication").get("slave0", {}).get("state") == "online"
    )


def _knows_the_replica(watched: Watched) -> bool:
    replicas = watched.sentinel.ask("SENTINEL REPLICAS", MASTER_NAME)
    return len(replicas) == 1 and replicas[0]["master-link-status"] == "ok"
