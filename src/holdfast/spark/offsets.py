"""Offsets of a queue: which reservation, and the plan by which it was made.

Spark writes an offset down before it runs the batch, and after a crash it asks for the same batch with
nothing but that. So the plan rides in the offset: how many rows of which shard, in how many
partitions. Options may have changed since; they do not matter any more.

    {"v": 1, "owner": "archive-5f0c…", "seq": 7, "rows": "1000,980", "parts": 4}

`rows` is text because Spark takes only text, numbers and booleans here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidArgument

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Offset:
    owner: str
    seq: int = 0
    """The last reservation up to here; 0: none yet."""
    rows: tuple[int, ...] = ()
    """How many it may have of each shard."""
    parts: int = 1

    def encode(self) -> dict[str, Any]:
        rows = ",".join(map(str, self.rows))
        return {
            "v": _VERSION,
            "owner": self.owner,
            "seq": self.seq,
            "rows": rows,
            "parts": self.parts,
        }


def decode(found: Mapping[str, Any]) -> Offset:
    """Raises InvalidArgument for what is not an offset of a queue."""
    try:
        if found["v"] != _VERSION:
            raise InvalidArgument(
                f"the checkpoint is of version {found['v']}, written by a newer Holdfast; upgrade, or "
                "start with a new checkpoint"
            )
        rows = tuple(int(n) for n in str(found["rows"]).split(",") if n)
        return Offset(str(found["owner"]), int(found["seq"]), rows, int(found["parts"]))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{dict(found)} is not an offset of a Holdfast queue; is this checkpoint another query's?"
        ) from error
