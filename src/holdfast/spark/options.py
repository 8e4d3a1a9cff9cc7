"""What a user may say with `.option(…)`: one table of names, checked before anything is read.

Spark ignores options it does not know, and so would we silently read another queue than was meant, or
all of it at once. Here an unknown or meaningless option is an error that says what to use instead.
Options stay in Spark's case-insensitive mapping: a plain `dict(options)` lowercases their names, and
`options["maxRowsPerTrigger"]` then finds nothing.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from holdfast.errors import InvalidArgument
from holdfast.message import STATES
from holdfast.spark.place import Place

Use = Literal["readStream", "read", "any read", "write", "writeStream"]
T = TypeVar("T")

_PLACES = ("url", "home", "queue", "topic", "subscription", "peer")
_READING = ("journal", "minPartitions", "fetchSize", "includeBody", "includeAttributes")
_NAMES: dict[Use, tuple[str, ...]] = {
    "readStream": (
        *_PLACES,
        *_READING,
        "maxRowsPerTrigger",
        "maxOffsetsPerTrigger",
        "minRowsPerTrigger",
        "maxTriggerDelay",
        "failOnDataLoss",
        "ownerName",
        "startingOffsets",
        "reservationTtl",
        "includeReservation",
    ),
    "read": (
        *_PLACES,
        *_READING,
        "state",
        "startingOffsets",
        "endingOffsets",
        "failOnDataLoss",
    ),
    "write": (*_PLACES, "batchSize"),
    "writeStream": (*_PLACES, "batchSize", "checkpointLocation", "queryName"),
}
_NAMES["any read"] = tuple(dict.fromkeys((*_NAMES["read"], *_NAMES["readStream"])))
_INSTEAD = {
    "path": "say .option('queue', NAME).load(), without a path",
    "subscribe": "say .option('topic', NAME).option('subscription', CONSUMER)",
    "host": "say .option('url', 'redis://host:port')",
    "startingoffsets": "a queue has no offsets: it gives what is in it; a journal has",
    "endingoffsets": "a queue has no offsets: it gives what is in it; a journal has",
    "state": "a stream takes ready messages; other states can be read with spark.read",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options. `journal`: events of a queue instead of its messages."""

    place: Place
    journal: bool = False
    state: str | None = None
    """Which state a batch read looks at; None: ready ones, and only the columns of a stream."""
    max_rows: int | None = None
    min_rows: int = 0
    max_delay: float = 0.0
    partitions: int = 0
    """At least so many; 0: as many as Spark has cores."""
    fetch: int = 5_000
    batch: int = 1_000
    body: bool = True
    attributes: bool = True
    reservation: bool = False
    ttl: float | None = None
    fail_on_loss: bool = True
    owner: str = ""
    start: str = "earliest"
    end: str = "latest"


def parse(options: Mapping[str, str], use: Use) -> Options:
    """Raises InvalidArgument, and says what to write instead."""
    given = {name.lower(): value for name, value in options.items()}
    known = {name.lower(): name for name in _NAMES[use]}
    for name in given:
        if name not in known:
            raise InvalidArgument(_unknown(name, known, use))
    place = _place(given, use)
    journal = "journal" in given
    if not journal:
        for name in ("startingoffsets", "endingoffsets"):
            if name in given:
                raise InvalidArgument(f"{known[name]} means nothing here: {_INSTEAD[name]}")
        if use == "read" and "failondataloss" in given:
            raise InvalidArgument(
                "failOnDataLoss means nothing here: a batch read of a queue shows what is there; it is "
                "for journals and streams"
            )
    else:
        meaningless = (
            "state",
            "minrowspertrigger",
            "maxtriggerdelay",
            "reservationttl",
            "ownername",
        )
        for name in (*meaningless, "includereservation", "includebody", "includeattributes"):
            if name in given:
                raise InvalidArgument(
                    f"{known[name]} means nothing for a journal, which has events"
                )
    both = [n for n in ("maxrowspertrigger", "maxoffsetspertrigger") if n in given]
    if len(both) == 2:
        raise InvalidArgument("maxRowsPerTrigger and maxOffsetsPerTrigger say the same; give one")

    def read(name: str, default: T, convert: Callable[[str, str], T]) -> T:
        found = given.get(name.lower())
        return default if found is None else convert(found, name)

    most = read(both[0] if both else "maxRowsPerTrigger", 0, _count) or None
    least = read("minRowsPerTrigger", 0, _count)
    if most is not None and least > most:
        raise InvalidArgument(f"minRowsPerTrigger is {least}, more than maxRowsPerTrigger, {most}")
    delay = read("maxTriggerDelay", 0.0, _seconds)
    if delay and not least:
        raise InvalidArgument(
            "maxTriggerDelay is how long to wait for minRowsPerTrigger: give both"
        )
    return Options(
        place,
        journal=journal,
        state=read("state", "", _state) or None,
        max_rows=most,
        min_rows=least,
        max_delay=delay or 900.0,
        partitions=read("minPartitions", 0, _count),
        fetch=read("fetchSize", 5_000, _count),
        batch=read("batchSize", 1_000, _count),
        body=read("includeBody", True, _yes),
        attributes=read("includeAttributes", True, _yes),
        reservation=read("includeReservation", False, _yes),
        ttl=read("reservationTtl", 0.0, _seconds) or None,
        fail_on_loss=read("failOnDataLoss", True, _yes),
        owner=read("ownerName", "", _owner),
        start=given.get("startingoffsets", "earliest"),
        end=given.get("endingoffsets", "latest"),
    )


def _unknown(name: str, known: Mapping[str, str], use: Use) -> str:
    if name in _INSTEAD:
        return f"{use} does not take the option {name!r}: {_INSTEAD[name]}"
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {known[near[0]]!r}?" if near else f"it takes {', '.join(_NAMES[use])}"
    return f"{use} does not know the option {name!r}; {hint}"


def _place(given: Mapping[str, str], use: Use) -> Place:
    url, home = given.get("url") or os.environ.get("HOLDFAST_URL") or None, given.get("home")
    if given.get("url") and home:
        raise InvalidArgument("home is the embedded server's folder; give url or home, not both")
    if url and url.partition(":")[0] in ("grpc", "grpcs"):
        raise InvalidArgument(
            "Spark reads and writes Valkey directly, on its executors; give the redis:// URL of the "
            "server behind the gRPC one"
        )
    named = [name for name in ("queue", "topic", "journal") if given.get(name)]
    if use in ("write", "writeStream"):
        if len(named) > 1:
            raise InvalidArgument("give queue or topic, not both")
        if given.get("subscription"):
            raise InvalidArgument("a subscription cannot be written to; publish to its topic")
    elif len(named) != 1:
        raise InvalidArgument(
            "say what to read: .option('queue', NAME), .option('topic', NAME) with "
            ".option('subscription', CONSUMER), or .option('journal', QUEUE)"
        )
    elif bool(given.get("topic")) != bool(given.get("subscription")):
        raise InvalidArgument("a subscription is named by both: topic and subscription")
    if given.get("peer") and not given.get("subscription"):
        raise InvalidArgument("peer is part of a subscription; give topic and subscription too")
    # Executors may have another working directory.
    folder = (
        None if url else str(Path(home or os.environ.get("HOLDFAST_HOME") or ".holdfast").resolve())
    )
    return Place(
        url,
        folder,
        given.get("queue") or given.get("journal"),
        given.get("topic"),
        given.get("subscription"),
        given.get("peer", ""),
    )


def _count(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise InvalidArgument(f"{name} must be a whole number from 1, not {text!r}")
    return int(text)


_TIME = re.compile(r"(\d+(?:\.\d+)?) *(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)?")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(text: str, name: str) -> float:
    found = _TIME.fullmatch(text.strip())
    if not found or float(found[1]) <= 0:
        raise InvalidArgument(f"{name} must be a time such as 30s, 15m or 500ms, not {text!r}")
    unit = found[2] or "s"
    scale = 0.001 if unit.startswith(("ms", "mil")) else _UNITS[unit[0]]
    return float(found[1]) * scale


def _yes(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(f"{name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _state(text: str, name: str) -> str:
    if text not in (*STATES, "all"):
        raise InvalidArgument(f"state must be one of {', '.join(STATES)} or all, not {text!r}")
    return text


def _owner(text: str, name: str) -> str:
    if not text or len(text) > 100 or not all(c.isalnum() or c in "-_." for c in text):
        raise InvalidArgument(
            "ownerName must be letters, digits, '-', '_' or '.', up to 100 of them"
        )
    return text
