"""The server as any Redis client sees it: plain commands, to look at keys or to damage them."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.client.safety import parse_info
from holdfast.engine.calls import Argument
from holdfast.engine.keys import base, suffixed


class Raw:
    def __init__(self, client: holdfast.Client) -> None:
        self._transport = client.transport

    def __call__(self, verb: str, key: str | bytes, *rest: Argument) -> Any:
        """A command whose first argument is a key, on the node that has it."""
        place = key if isinstance(key, str) else key.decode("latin-1")
        return self._transport.command(verb, key, *rest, key=place)

    def fcall(self, verb: str, queue: str, *args: Argument) -> Any:
        """A function of the engine, on a queue's first shard, with whatever arguments."""
        key = base(queue)
        return self._transport.command("FCALL", f"hf1_{verb}", 1, key, *args, key=key)

    def everywhere(self, *command: Argument) -> list[Any]:
        """A command on every primary."""
        self._transport.command("PING")
        return [node.command(*command) for node in self._transport.routes.primaries()]

    def keys(self, queue: holdfast.Queue | holdfast.Topic | holdfast.Subscription) -> set[str]:
        """All keys of a queue, or of a topic with its subscriptions; those that end by themselves
        left out. A key may hold any bytes."""
        found: set[bytes] = set()
        for ref in queue.refs():
            for part in self.everywhere("KEYS", f"{ref.key}*"):
                found |= set(part)
        return {key.decode("utf-8", "backslashreplace") for key in found if self("PTTL", key) == -1}

    def set_last_batch(self, queue: holdfast.Queue, number: int) -> None:
        """As if the queue's first shard had given this batch last; the next one is one more where the clock
        is behind."""
        [ref, *_] = queue.refs()
        state = bytearray(self("HGET", ref.key, "state"))
        state[12:18] = number.to_bytes(6, "big")
        self("HSET", ref.key, "state", bytes(state))

    def size(self) -> int:
        """How many keys there are that do not end by themselves, on all primaries."""
        total = 0
        for text in self.everywhere("INFO", "keyspace"):
            for part in parse_info(text).values():
                numbers = dict(item.split("=") for item in part.split(","))
                total += int(numbers["keys"]) - int(numbers["expires"])
        return total

    def calls(self) -> dict[str, int]:
        """How often each command was called so far, those inside functions included."""
        counts: dict[str, int] = {}
        for text in self.everywhere("INFO", "commandstats"):
            for name, numbers in parse_info(text).items():
                command = name.removeprefix("cmdstat_")
                calls = int(numbers.partition(",")[0].removeprefix("calls="))
                counts[command] = counts.get(command, 0) + calls
        return counts


def key(queue: holdfast.Queue, lua_name: str, tail: str = "", shard: int = 0) -> str:
    """A key of a queue, by its name in the catalogue."""
    return suffixed(base(queue.name, shard), lua_name, tail)
