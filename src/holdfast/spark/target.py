"""One queue or topic, as one writing task sees it: rows that wait to be sent, and those that were.

Runs in a Python worker of an executor. `_done` holds what the ledgers say was sent under this task's name
and has not come by yet: by digest, how often. A row that is in it is not sent again. Each shard has its
ledger; a row's shard follows from the row, so that two attempts at it meet at the same one.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from itertools import accumulate
from zlib import crc32

import holdfast
from holdfast.engine import calls, ledger
from holdfast.engine.keys import QueueRef
from holdfast.engine.ledger import Ledger
from holdfast.errors import InvalidArgument, Resharded, Unavailable
from holdfast.spark.rows import NOTHING, Rows

# A call holds the server while it runs: no more than so much of it, whatever batchSize says.
_CALL_BYTES = 4 * 1024 * 1024
_PAGE = 100


class _Shard:
    """What waits for one shard, by columns; `known`: how many entries of its ledger are in `_done`."""

    __slots__ = ("digests", "envelopes", "homes", "known", "ref", "said")

    def __init__(self, ref: QueueRef) -> None:
        self.ref = ref
        self.known = 0
        self.digests: list[bytes] = []
        self.envelopes: list[bytes] = []
        self.said: list[tuple[str, str]] = []
        self.homes: list[str] = []

    def first(self, most: int) -> int:
        """How many rows the next call takes."""
        sizes = list(map(len, self.envelopes[:most]))
        if sum(sizes) <= _CALL_BYTES:
            return len(sizes)
        return max(bisect(list(accumulate(sizes)), _CALL_BYTES), 1)

    def drop(self, n: int) -> None:
        del self.digests[:n], self.envelopes[:n], self.said[:n], self.homes[:n]


class Target:
    def __init__(self, place: holdfast.Queue | holdfast.Topic, name: Ledger, batch: int) -> None:
        self._place = place
        self._ledger = name
        self._batch = batch
        self._transport = place.transport
        self._done: Counter[bytes] = Counter()
        self._dedup_checked = False
        self.rows = self.duplicates = self.repeated = 0
        place._register()
        if isinstance(place, holdfast.Queue):
            # This process may know it from another job, long ago; a shard that is gone takes nothing.
            place.refresh()
        self._shards: list[_Shard] = []
        # How many of them take rows.
        self._open = 0
        self._grow(len(place.refs()))

    def take(self, rows: Rows) -> None:
        """Send these rows, or keep the last of them until there is a call's worth."""
        if rows.said is not None and any(dedup_id for _, dedup_id in rows.said):
            self._check_dedup()
        self.rows += len(rows.digests)
        said = rows.said or [NOTHING] * len(rows.digests)
        if len(self._shards) == 1 and not self._done:
            only = self._shards[0]
            only.digests += rows.digests
            only.envelopes += rows.envelopes
            only.said += said
            only.homes += rows.homes or [""] * len(rows.digests)
        else:
            homes = rows.homes or [""] * len(rows.digests)
            for row in zip(rows.digests, rows.envelopes, said, homes, strict=True):
                self._sort_in(*row)
        self._send(self._batch)

    def flush(self) -> None:
        self._send(1)

    def _sort_in(self, digest: bytes, envelope: bytes, said: tuple[str, str], home: str) -> None:
        if not self._met(digest):
            self._put(digest, envelope, said, home)

    def _put(self, digest: bytes, envelope: bytes, said: tuple[str, str], home: str) -> None:
        at = crc32(home.encode()) if home else int.from_bytes(digest[:4], "big")
        shard = self._shards[at % self._open]
        shard.digests.append(digest)
        shard.envelopes.append(envelope)
        shard.said.append(said)
        shard.homes.append(home)

    def _met(self, digest: bytes) -> bool:
        """Was this row sent by an earlier attempt? Each row of an entry answers for one only."""
        left = self._done.get(digest, 0)
        if not left:
            return False
        if left == 1:
            del self._done[digest]
        else:
            self._done[digest] = left - 1
        self.repeated += 1
        return True

    def _send(self, least: int) -> None:
        """Send while a shard has at least so many rows waiting."""
        while full := [shard for shard in self._shards if len(shard.envelopes) >= least]:
            for shard in full:
                while len(shard.envelopes) >= least:
                    self._send_some(shard)

    def _send_some(self, shard: _Shard) -> None:
        n = shard.first(self._batch)
        said = shard.said[:n]
        call = ledger.send(
            shard.ref,
            self._ledger,
            shard.known,
            shard.digests[:n],
            shard.envelopes[:n],
            None if said.count(NOTHING) == n else said,
        )
        try:
            outcome = self._transport.run(call)
        except Resharded as error:
            self._leave(shard, error.shards)
            return
        if not outcome.done:
            self._meet_others(shard, outcome.entries)
            return
        shard.known = outcome.entries
        shard.drop(n)
        self.duplicates += outcome.duplicates
        if shard.ref.shard and outcome.somebody_waits:
            self._transport.run(calls.wake(self._shards[0].ref))
        if outcome.first:
            self._place.list_again()
        self._grow(outcome.shards)

    def _leave(self, shard: _Shard, n: int) -> None:
        """The queue has given this shard up, and has `n`: what waits for it goes to those."""
        self._open = n
        waiting = list(zip(shard.digests, shard.envelopes, shard.said, shard.homes, strict=True))
        shard.drop(len(waiting))
        for row in waiting:
            self._put(*row)

    def _meet_others(self, shard: _Shard, entries: int) -> None:
        """There are entries that we did not write, or did and never heard so. Rows that are in them are
        not to be sent; the others are."""
        if entries < shard.known:
            raise Unavailable(
                f"{shard.ref.name!r} no longer has all that this task has sent to it: the server lost "
                "writes, perhaps in a failover, or somebody deleted them; when Spark repeats the "
                "task, it will send again what is missing"
            )
        self._read(shard)
        waiting = list(zip(shard.digests, shard.envelopes, shard.said, shard.homes, strict=True))
        shard.drop(len(waiting))
        for digest, envelope, said, home in waiting:
            if not self._met(digest):
                shard.digests.append(digest)
                shard.envelopes.append(envelope)
                shard.said.append(said)
                shard.homes.append(home)

    def _read(self, shard: _Shard) -> None:
        """Take further entries of the shard's ledger into account."""
        run, part, generation, _ = self._ledger
        reached = self._generation(ledger.key(shard.ref, run))
        if reached > generation:
            raise InvalidArgument(
                f"batch {generation} was sent to {shard.ref.name!r} long ago: this query has come to "
                f"batch {reached} there. If the checkpoint is an old copy, take the current one, or "
                "start with a new checkpoint to send all of it again"
            )
        key = ledger.key(shard.ref, run, part)
        if self._generation(key) < generation:
            return
        while True:
            first = 1 + shard.known  # before the entries stands the generation
            found = self._transport.command("LRANGE", key, first, first + _PAGE - 1, key=key)
            for entry in found:
                self._done.update(ledger.split(entry))
            shard.known += len(found)
            if len(found) < _PAGE:
                return

    def _generation(self, key: str) -> int:
        return int(self._transport.command("LINDEX", key, 0, key=key) or -1)

    def _grow(self, n: int) -> None:
        """To as many shards as the queue has; not to fewer, before one says that it is none any more."""
        self._open = max(self._open, n)
        for i in range(len(self._shards), n):
            shard = _Shard(self._place.refs()[0] if i == 0 else QueueRef(self._place.name, i))
            self._read(shard)
            self._shards.append(shard)

    def _check_dedup(self) -> None:
        """The queue must keep dedup ids, or they would promise what nobody holds."""
        if not self._dedup_checked and not self._place.settings().dedup_window:
            raise InvalidArgument(
                f"rows have a dedup_id, but {self._place.name!r} keeps none: its dedup_window is 0; "
                "set it with configure(dedup_window=…), or drop the column: rows are sent once "
                "without it too, as long as it is the same job"
            )
        self._dedup_checked = True
