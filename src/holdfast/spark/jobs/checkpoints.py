"""What a query's checkpoint says: how far it came, and what it has begun.

    CHECKPOINT/offsets/17     batch 17 was planned, with the source's offset in it
    CHECKPOINT/commits/17     it is done

A query acks a batch when it plans the next one. One that is told to stop never does, and its last
messages would stay reserved until it is started again. So who stops a query settles it: what the
commit log has is done, and can be acked by anybody, as often as they like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.spark.jobs.files import Files
from holdfast.spark.offsets import Offset, decode
from holdfast.spark.place import Place


@contextmanager
def settling(queries: Sequence[tuple[Files, str, Place]]) -> Iterator[list[int]]:
    """Around the run of queries, by their checkpoints: afterwards all are settled, and the list says
    how many messages each still holds. If the run failed, its error has a note about that."""
    left: list[int] = []
    try:
        yield left
    except HoldfastError as error:
        with suppress(HoldfastError):
            if held := sum(settle(*query) for query in queries):
                error.add_note(
                    f"{held:,} messages stay reserved for the batch that failed; it is done again when "
                    "the job is started again. If it never will be, `holdfast reservations` gives "
                    "them back"
                )
        raise
    left += [settle(*query) for query in queries]


def settle(files: Files, checkpoint: str, place: Place) -> int:
    """Ack what is done. How many messages are reserved for a batch that is not; it will be done when
    the query is started again. The query must not be running."""
    done = _last(files, f"{checkpoint}/commits")
    planned = _last(files, f"{checkpoint}/offsets")
    target = place.target()
    if done is not None:
        offset = _offset(files, checkpoint, done)
        target.commit(offset.owner, offset.seq, len(offset.rows))
    if planned is None or planned == done:
        return 0
    begun = _offset(files, checkpoint, planned)
    held = target.reservations()
    return sum(r.rows for r in held if r.owner == begun.owner and r.seq == begun.seq)


def _last(files: Files, folder: str) -> int | None:
    return max((int(name) for name in files.names(folder) if name.isdigit()), default=None)


def _offset(files: Files, checkpoint: str, batch: int) -> Offset:
    """A version, a line about the batch, and one per source; these queries have one source."""
    lines = files.read(f"{checkpoint}/offsets/{batch}").splitlines()
    try:
        return decode(msgspec.json.decode(lines[2]))
    except (IndexError, msgspec.DecodeError) as error:
        raise InvalidArgument(
            f"{checkpoint} is not the checkpoint of a query on one queue: its offset {batch} cannot be "
            "read"
        ) from error
