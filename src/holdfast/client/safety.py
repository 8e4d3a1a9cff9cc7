"""What the connected server really guarantees, read off INFO and CONFIG: the doctor's knowledge.

Levels: `ok`; `warn`, it may lose messages in a crash; `bad`, it may lose or refuse them in normal
running. Pure functions: the client does the asking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "bad"]
Check = Literal["warn", "refuse", "off"]

# redis_version of Valkey stays at 7.2.4; it tells its own under valkey_version.
_OLDEST = {"valkey": (8, 0), "redis": (7, 0)}


# Servers that speak the protocol and have no functions, by what they say of themselves in INFO.
_WITHOUT_FUNCTIONS = {"dragonfly_version": "Dragonfly", "garnet_version": "Garnet"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: how it stands, what that means, and what to do about it."""

    topic: str
    level: Level
    says: str
    fix: str = ""


def parse_info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


def server(info: Mapping[str, str]) -> tuple[str, tuple[int, ...]]:
    """Which server it is, and its version."""
    kind = "valkey" if "valkey_version" in info else "redis"
    numbers = re.findall(r"\d+", info.get(f"{kind}_version", "0"))
    return kind, tuple(int(n) for n in numbers[:3])


def _version(info: Mapping[str, str]) -> Finding:
    for word, name in _WITHOUT_FUNCTIONS.items():
        if word in info:
            fix = "run Valkey 8 or Redis 7, or later; see docs/servers.md"
            return Finding("server", "bad", f"{name} {info[word]} has no functions", fix)
    kind, version = server(info)
    shown = f"{kind.title()} {'.'.join(map(str, version))}"
    oldest = _OLDEST[kind]
    if version < oldest:
        need = " or ".join(f"{k.title()} {'.'.join(map(str, v))}" for k, v in _OLDEST.items())
        return Finding("server", "bad", f"{shown} is too old", f"run {need} or later")
    return Finding("server", "ok", shown)


def _eviction(info: Mapping[str, str]) -> Finding:
    policy, limit = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", "0")
    if policy == "noeviction":
        return Finding(
            "eviction", "ok", "noeviction: a full server refuses sends, and loses nothing"
        )
    fix = "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration file"
    if limit == "0":
        return Finding("eviction", "warn", f"{policy}, harmless only while maxmemory is unset", fix)
    return Finding("eviction", "bad", f"{policy}: a full server throws messages away", fix)


def durability(info: Mapping[str, str], config: Mapping[str, str]) -> str:
    """The word for it: none, snapshot, fast or durable; unknown if CONFIG is not allowed."""
    if info.get("aof_enabled") != "1":
        return "snapshot" if config.get("save", "") else "none"
    fsync = config.get("appendfsync")
    return {"always": "durable", "everysec": "fast", "no": "fast", None: "unknown"}.get(
        fsync, "fast"
    )


def _durable(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    word = durability(info, config)
    on = "CONFIG SET appendonly yes and CONFIG SET appendfsync always, and the same in the file"
    if word == "durable":
        return Finding(
            "durability", "ok", "durable: on disk before the answer; a crash loses nothing"
        )
    if word == "fast":
        says = "fast: written to disk each second; a power cut may lose the last second or more"
        return Finding("durability", "warn", says, "CONFIG SET appendfsync always")
    if word == "unknown":
        says = "append-only file on; CONFIG is not allowed, so how often it is written is unknown"
        return Finding("durability", "warn", says, "ask your provider for appendfsync always")
    if word == "snapshot":
        says = "snapshots only: a crash loses everything since the last one"
        return Finding("durability", "bad", says, on)
    return Finding("durability", "bad", "none: a crash or restart loses every message", on)


def _replicas(info: Mapping[str, str], config: Mapping[str, str]) -> list[Finding]:
    n = int(info.get("connected_slaves", "0"))
    if n == 0:
        says = "none: connect(replicas=…) would have nobody to wait for"
        return [Finding("replicas", "ok", says)]
    says = (
        f"{n}: with connect(replicas={n}) each write waits for all of them, so that whichever takes over "
        "has it"
    )
    if n > 1:
        says += "; with fewer, one that has not got it may take over"
    found = [Finding("replicas", "ok", says)]
    if config.get("min-replicas-to-write") == "0":
        says = "min-replicas-to-write 0: a primary that is cut off takes messages that a failover then loses"
        fix = "CONFIG SET min-replicas-to-write 1, at each of them and in the file; or connect(replicas=…)"
        found.append(Finding("cut off", "warn", says, fix))
    return found


def findings(info: Mapping[str, str], config: Mapping[str, str]) -> list[Finding]:
    """Everything worth saying about one server."""
    return [_version(info), _eviction(info), _durable(info, config), *_replicas(info, config)]
