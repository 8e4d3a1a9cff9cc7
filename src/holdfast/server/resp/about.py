"""What the server tells about itself: COMMAND, INFO, CONFIG GET, TIME and MQ.HELP.

Enough for redis-cli to complete and hint, for redis-benchmark to start, and for monitoring to see that
somebody is there. The queues' own numbers are in MQ.STATS.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import time
from fnmatch import fnmatchcase

from holdfast import __version__
from holdfast.server.resp.arguments import shown
from holdfast.server.resp.command import Command
from holdfast.server.resp.connection import Connection
from holdfast.server.resp.writer import Failure, Reply, Simple

# Clients decide by it which commands they may send; what is here behaves as in this one.
_LIKE_REDIS = "7.0.15"


def command(caller: Connection, args: list[bytes]) -> Reply:
    table = caller.door.table
    names = [name.upper() for name in args[1:]]
    match args[0].upper() if args else b"":
        case b"":
            return [_entry(c) for c in table.values()]
        case b"COUNT":
            return len(table)
        case b"LIST":
            return [c.name for c in table.values()]
        case b"INFO":
            return [_entry(table[n]) if n in table else None for n in names or table]
        case b"DOCS":
            return {table[n].name: _doc(table[n]) for n in names or table if n in table}
        case _:
            raise Failure(f"unknown subcommand '{shown(args[0])[1:-1]}'. Try COMMAND DOCS.")


def _entry(c: Command) -> Reply:
    flags = [Simple(flag) for flag in c.flags]
    return [c.name, c.arity, flags, *c.keys, [Simple(f"@{c.group}")], [], [], []]


def _doc(c: Command) -> Reply:
    return {
        "summary": c.summary,
        "since": __version__,
        "group": c.group,
        "complexity": "O(N) where N is the number of messages",
        "arguments": [_argument(part) for part in _parts(c.usage)],
    }


def _parts(usage: str) -> list[str]:
    """The arguments of a usage line: what is in brackets belongs together. Alternatives are shown
    whole, since what comes next depends on what came."""
    found = re.findall(r"(?:[^][\s]|\[(?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*\])+", usage)
    return [usage] if "|" in found else found


def _argument(part: str) -> Reply:
    flags = [Simple("optional")] if part.startswith("[") else []
    inner = part[1:-1] if flags else part
    told: dict[str, Reply] = {"name": inner, "type": "string", "display_text": inner}
    if flags:
        told["flags"] = flags
    return told


def help_(caller: Connection, args: list[bytes]) -> Reply:
    chosen = {name.upper() for name in args}
    return [
        f"{c.name.upper()} {c.usage}".rstrip() + f" -- {c.summary}"
        for key, c in caller.door.table.items()
        if (key in chosen if chosen else key.startswith(b"MQ."))
    ]


def _sections(caller: Connection) -> dict[str, dict[str, object]]:
    door, meter = caller.door, caller.door.meter
    used = resource.getrusage(resource.RUSAGE_SELF)
    up = int(time.time() - door.started)
    # Of the process, in KiB on Linux and bytes on macOS.
    peak = used.ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
    return {
        "Server": {
            "redis_version": _LIKE_REDIS,
            "server_name": "holdfast",
            "holdfast_version": __version__,
            "redis_mode": "standalone",
            "os": platform.platform(),
            "arch_bits": 64,
            "process_id": os.getpid(),
            "tcp_port": door.address.rpartition(":")[2],
            "uptime_in_seconds": up,
            "uptime_in_days": up // 86_400,
        },
        "Clients": {
            "connected_clients": len(door.connections),
            "maxclients": door.broker.limits.connections,
            "blocked_clients": sum(not c.idle for c in door.connections),
        },
        "Memory": {"used_memory": meter.in_flight, "used_memory_peak_rss": peak},
        "Persistence": {"loading": 0},
        "Stats": {
            "total_connections_received": meter.connected,
            "rejected_connections": meter.refused,
        },
        "Replication": {"role": "master", "connected_slaves": 0},
        "CPU": {"used_cpu_sys": used.ru_stime, "used_cpu_user": used.ru_utime},
        "Cluster": {"cluster_enabled": 0},
        "Keyspace": {},
    }


def info(caller: Connection, args: list[bytes]) -> Reply:
    wanted = {arg.decode("utf-8", "replace").lower() for arg in args}
    every = not wanted or wanted & {"all", "default", "everything"}
    parts = []
    for title, lines in _sections(caller).items():
        if every or title.lower() in wanted:
            parts.append("".join([f"# {title}\r\n", *(f"{k}:{v}\r\n" for k, v in lines.items())]))
    return "\r\n".join(parts)


def config(caller: Connection, args: list[bytes]) -> Reply:
    if args[0].upper() != b"GET" or len(args) < 2:
        raise Failure(
            "CONFIG has GET here; the server is configured by flags, variables and a file"
        )
    # This door keeps nothing on disk itself; redis-benchmark asks.
    known = {"save": "", "appendonly": "no", "databases": "1"}
    patterns = [arg.decode("utf-8", "replace").lower() for arg in args[1:]]
    return {k: v for k, v in known.items() if any(fnmatchcase(k, p) for p in patterns)}


def clock(caller: Connection, args: list[bytes]) -> Reply:
    now = time.time_ns() // 1000
    return [str(now // 1_000_000), str(now % 1_000_000)]


_FLAGS = ("loading", "stale")
COMMANDS = (
    Command(
        "command",
        "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]",
        0,
        None,
        command,
        "What commands there are",
        "server",
        _FLAGS,
    ),
    Command("info", "[section ...]", 0, None, info, "About this server", "server", _FLAGS),
    Command(
        "config",
        "GET pattern [pattern ...]",
        1,
        None,
        config,
        "What tools ask about the server's configuration",
        "server",
        _FLAGS,
    ),
    Command("time", "", 0, 0, clock, "The time here: seconds and microseconds", "server", _FLAGS),
    Command(
        "mq.help",
        "[command ...]",
        0,
        None,
        help_,
        "How the commands of the queues are used",
        "server",
        _FLAGS,
    ),
)
