"""Ledgers: what one task has sent, kept beside what it sent. The mirror of `lua/send_once.lua`.

Who may have to repeat its work after a failure (a Spark task, a micro-batch) sends under the name of a
ledger. Messages and the digests of their rows are stored in one step, and only if the sender has taken
all earlier entries into account; so a repetition, in whichever order, and even beside a first attempt
that still runs, finds out what is done. Dedup ids could do the same, at seven times the cost for the
server and within the queue's dedup window only; here the memory is 12 bytes a row, of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.engine.calls import Argument, Call
from holdfast.engine.keys import QueueRef, TopicRef, suffixed

DIGEST = 12
"""Bytes that stand for a row in an entry."""


class Ledger(NamedTuple):
    """One part of a run. `generation`: which batch; once a run has come to a later one, it never comes
    back. Kept for `keep_ms` after its last entry."""

    run: str
    part: int
    generation: int
    keep_ms: int


class Outcome(NamedTuple):
    """`done`: stored. Else nothing was, since there are `entries` entries and not so many as told."""

    done: bool
    entries: int
    duplicates: int = 0
    somebody_waits: bool = False
    shards: int = 1
    first: bool = False


def send(
    ref: QueueRef,
    ledger: Ledger,
    known: int,
    digests: Sequence[bytes],
    envelopes: Sequence[bytes],
    said: Sequence[tuple[str, str]] | None = None,
) -> Call[Outcome]:
    """Send, or publish where `ref` is a topic. `said`: when and dedup id of each message, if any has.
    May be repeated freely: the second time the number of entries differs."""
    verb = "publish" if isinstance(ref, TopicRef) else "send"
    args: list[Argument] = [verb, *ledger[:3], known, ledger.keep_ms, b"".join(digests)]
    if said is None:
        args += ("plain", *envelopes)
    else:
        args.append("full")
        for (when, dedup_id), envelope in zip(said, envelopes, strict=True):
            args += (when, dedup_id, envelope)
    return Call("send_once", ref, args, lambda reply: _outcome(reply, known))


def _outcome(reply: list[Any], known: int) -> Outcome:
    if len(reply) == 1:
        return Outcome(False, reply[0])
    waits, shards = reply[2:4]
    duplicates = (len(reply) - 4) // 2
    return Outcome(True, known + 1, duplicates, waits & 1 == 1, shards, waits > 1)


def key(ref: QueueRef, run: str, part: int | None = None) -> str:
    """Where a part's ledger is; None: that of the run, which holds how far it is."""
    return suffixed(ref.key, "ledger", run if part is None else f"{run}/{part}")


def split(entry: bytes) -> list[bytes]:
    """The digests in an entry."""
    return [entry[i : i + DIGEST] for i in range(0, len(entry), DIGEST)]
