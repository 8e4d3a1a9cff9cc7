"""Messages that somebody took without a lease, long ago: nobody gets them until somebody recovers them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from holdfast.cli import durations, output
from holdfast.client._sync.client import Client
from holdfast.engine.replies import Stats

LONGER = 3600.0


def remedy(queue: str) -> str:
    return f"holdfast recover {shlex.quote(queue)} --elapsed 1h"


def found(client: Client, stats: Mapping[str, Stats]) -> dict[str, str]:
    """What is to be said of which queue."""
    said = {}
    for name, now in stats.items():
        held = client.queue(name).held_without_end(LONGER) if now.leased else []
        if held:
            since = min(m.received_at for m in held if m.received_at)
            ago = durations.show(now.now / 1000 - since.timestamp())
            what = output.several(len(held), "message")
            said[name] = f"{name!r} holds {what} without a lease, the oldest taken {ago} ago"
    return said


def lines(client: Client, stats: Mapping[str, Stats]) -> list[str]:
    return [f"{says}: {remedy(name)}" for name, says in found(client, stats).items()]
