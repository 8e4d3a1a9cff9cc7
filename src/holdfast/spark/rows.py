"""What the sink takes: which columns, of which types, and how their rows become packed messages.

Columns are checked when Spark plans the write, before anything is sent; values when their batch is
packed. A row's digest is made of all that is sent of it, so that equal digests mean equal messages, and
rows may come in another order the second time (see `sink.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
)

from holdfast.engine.calls import Packed, pack
from holdfast.engine.ledger import DIGEST
from holdfast.errors import InvalidArgument
from holdfast.message import Outgoing, plain_envelopes

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "body": ((BinaryType, StringType), "BINARY or STRING"),
    "attributes": ((MapType,), "MAP<STRING,STRING>"),
    "priority": (_WHOLE, "INT"),
    "delay_ms": (_WHOLE, "LONG"),
    "group": ((StringType,), "STRING"),
    "dedup_id": ((StringType,), "STRING"),
    "queue": ((StringType,), "STRING"),
}
_INSTEAD = {
    "body": "make it one: to_json(struct(…)) AS body, or cast it to STRING",
    "attributes": "make it one: map('kind', kind, …)",
}


def check(schema: StructType, *, routed: bool) -> tuple[str, ...]:
    """The sink's names of the columns, in their order. `routed`: the column `queue` says where to.

    Raises InvalidArgument for a column that is missing, unknown or of a wrong type.
    """
    names = tuple(name.lower() for name in schema.fieldNames())
    unknown = [n for n, low in zip(schema.fieldNames(), names, strict=True) if low not in _TYPES]
    if unknown:
        raise InvalidArgument(
            f"a message has no {', '.join(unknown)}: it has {', '.join(_TYPES)}; select those, and "
            "put the rest into the body, with to_json(struct(…)) AS body"
        )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidArgument(f"there are several columns {', '.join(sorted(twice))}; keep one")
    if "body" not in names:
        raise InvalidArgument("there is no column body; for example to_json(struct(*)) AS body")
    if routed and "queue" not in names:
        raise InvalidArgument(
            "say where to write: .option('queue', NAME), .option('topic', NAME), or a column queue"
        )
    for field, name in zip(schema.fields, names, strict=True):
        types, wanted = _TYPES[name]
        kind = field.dataType
        fits = isinstance(kind, types)
        if isinstance(kind, MapType):
            fits = fits and isinstance(kind.keyType, StringType)
            fits = fits and isinstance(kind.valueType, StringType)
        if isinstance(kind, NullType):  # NULL AS group
            fits = name not in ("body", "queue")
        if not fits:
            hint = _INSTEAD.get(name, "cast it")
            raise InvalidArgument(
                f"column {field.name} must be {wanted}, not {kind.simpleString().upper()}; {hint}"
            )
    return names


NOTHING = ("", "")
"""Said of a row that is neither delayed nor has a dedup id."""


@dataclass(slots=True)
class Rows:
    """Packed rows for one queue, by columns. `said`: when it is due and its dedup id; `homes`: rows of
    the same one stay together. None where no row has any."""

    digests: list[bytes]
    envelopes: list[bytes]
    said: list[tuple[str, str]] | None = None
    homes: list[str] | None = None


def pack_batch(
    batch: pa.RecordBatch, names: Sequence[str], *, routed: bool, first: int
) -> Iterator[tuple[str, Rows]]:
    """Rows by the queue they go to ('' if all go to one), in their order. `first`: the number of the
    first row, by which an error calls a bad one."""
    given = {
        name: column
        for name, column in zip(names, batch.columns, strict=True)
        if name == "body" or column.null_count < len(column)
    }
    if not routed:
        given.pop("queue", None)
    for name in ("body", "queue") if routed else ("body",):
        _refuse_null(name, given.get(name), first)
    bodies = _bodies(given.pop("body"))
    if not bodies:
        return
    if not given:
        try:
            envelopes = plain_envelopes(bodies)
        except InvalidArgument as error:
            raise InvalidArgument(f"row {_longest(bodies) + first}: {error}") from error
        digests = [blake2b(e, digest_size=DIGEST).digest() for e in envelopes]
        yield "", Rows(digests, envelopes)
        return
    queues = given.pop("queue").to_pylist() if routed else None
    packed = [
        _pack(body, values, first + i)
        for i, (body, values) in enumerate(zip(bodies, _values(given, len(bodies)), strict=True))
    ]
    if queues is None:
        yield "", _columns(packed)
        return
    by_queue: dict[str, list[Packed]] = {}
    for queue, each in zip(queues, packed, strict=True):
        by_queue.setdefault(queue, []).append(each)
    for queue, some in by_queue.items():
        yield queue, _columns(some)


def _refuse_null(name: str, column: pa.Array | None, first: int) -> None:
    if column is None:
        raise InvalidArgument(f"row {first}: {name} is NULL")
    if column.null_count:
        at = first + column.is_null().to_pylist().index(True)
        raise InvalidArgument(
            f"row {at} of this partition: {name} is NULL; leave such rows out with "
            f".where('{name} IS NOT NULL')"
        )


def _bodies(column: pa.Array) -> list[bytes]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    found: list[bytes] = column.to_pylist()
    return found


def _longest(bodies: list[bytes]) -> int:
    return max(range(len(bodies)), key=lambda i: len(bodies[i]))


def _values(given: dict[str, pa.Array], n: int) -> Iterator[dict[str, Any]]:
    if not given:
        return iter([{}] * n)
    lists = [column.to_pylist() for column in given.values()]
    return (dict(zip(given, row, strict=True)) for row in zip(*lists, strict=True))


def _pack(body: bytes, values: dict[str, Any], row: int) -> Packed:
    attributes, delay_ms = values.get("attributes"), values.get("delay_ms")
    try:
        return pack(
            Outgoing(
                body,
                delay=None if delay_ms is None else delay_ms / 1000,
                priority=values.get("priority") or 0,
                # Sorted, so that a map built in another order is the same row.
                attributes=dict(sorted(attributes)) if attributes else None,
                group=values.get("group"),
                dedup_id=values.get("dedup_id"),
            )
        )
    except InvalidArgument as error:
        raise InvalidArgument(f"row {row} of this partition: {error}") from error


def _columns(packed: list[Packed]) -> Rows:
    said = [(p.when, p.dedup_id) for p in packed]
    digests = [
        # Neither a time nor a dedup id can hold the separator.
        blake2b(f"{p.when}\0{p.dedup_id}\0".encode() + p.envelope, digest_size=DIGEST).digest()
        if p.when or p.dedup_id
        else blake2b(p.envelope, digest_size=DIGEST).digest()
        for p in packed
    ]
    return Rows(
        digests,
        [p.envelope for p in packed],
        None if said.count(NOTHING) == len(said) else said,
        [p.home for p in packed] if any(p.home for p in packed) else None,
    )
