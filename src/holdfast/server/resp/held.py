"""Which ids were handed out together on a connection, so that an MQ.ACK of just those, in their order,
becomes one receipt for the whole batch.

Only a shortcut: what is forgotten, or was not all current any more, is acked id by id. Bodies are not
kept, and the number of ids is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from struct import Struct

from holdfast.client._async.delivery import AsyncDelivery, AsyncHandful

_MOST = 10_000
_SEQ = Struct(">I").unpack_from


def ids_of(deliveries: Sequence[AsyncDelivery]) -> list[bytes]:
    """The ids as they are written. Neighbours were mostly sent in the same millisecond, and their ids
    then begin alike."""
    if deliveries and deliveries[0].shard:
        return [d.id.encode() for d in deliveries]
    ids: list[bytes] = []
    last, begin, seq = b"", b"", _SEQ
    for d in deliveries:
        record = d._record
        if record[:6] != last:
            last = record[:6]
            begin = b"%d-" % int.from_bytes(last, "big")
        ids.append(b"%b%d" % (begin, *seq(record, 6)))
    return ids


class Held:
    def __init__(self) -> None:
        # By queue and first id.
        self._batches: OrderedDict[tuple[str, bytes], tuple[list[bytes], AsyncHandful]]
        self._batches = OrderedDict()
        self._ids = 0

    def remember(self, queue: str, deliveries: Sequence[AsyncDelivery], ids: list[bytes]) -> None:
        """What one receive gave, and its ids; several batches if it was a large one."""
        at = 0
        while at < len(deliveries):
            batch = deliveries[at].batch
            end = at + batch.size
            # A batch of which some were unfit to be handed out is shorter than it says.
            if end > len(deliveries) or deliveries[end - 1].batch is not batch:
                return
            self._batches[queue, ids[at]] = (ids[at:end], batch)
            self._ids += batch.size
            at = end
        while self._ids > _MOST:
            _, (gone, _) = self._batches.popitem(last=False)
            self._ids -= len(gone)

    def take(self, queue: str, ids: list[bytes]) -> AsyncHandful | None:
        """The batch whose ids these are, all of them and in order."""
        found = self._batches.pop((queue, ids[0]), None)
        if found is None:
            return None
        self._ids -= len(found[0])
        return found[1] if found[0] == ids else None
