"""The columns of everything Spark reads and writes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.spark.options import Options

_MAP = MapType(StringType(), StringType())


def _columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in types.items()])


MESSAGES = _columns(
    queue=StringType(),
    id=StringType(),
    body=BinaryType(),
    attributes=_MAP,
    priority=IntegerType(),
    receives=IntegerType(),
    sent_at=TimestampType(),
    group=StringType(),
)
"""A message as it comes from a stream."""

LOOKED_AT = StructType(
    [
        *MESSAGES.fields,
        *_columns(
            state=StringType(),
            due=TimestampType(),
            received_at=TimestampType(),
            lease_until=TimestampType(),
            died_at=TimestampType(),
            reason=StringType(),
            error=StringType(),
        ).fields,
    ]
)
"""A message as a batch read finds it."""

EVENTS = _columns(
    queue=StringType(),
    shard=IntegerType(),
    entry=StringType(),
    position=IntegerType(),
    event=StringType(),
    id=StringType(),
    time=TimestampType(),
    priority=IntegerType(),
    receives=IntegerType(),
    size=IntegerType(),
    lease_ms=LongType(),
    lease_until=TimestampType(),
    due=TimestampType(),
    reason=StringType(),
)
"""What happened to a message; (queue, shard, entry, position) names it."""

OUTGOING = _columns(
    body=BinaryType(),
    attributes=_MAP,
    priority=IntegerType(),
    delay_ms=LongType(),
    group=StringType(),
    dedup_id=StringType(),
    queue=StringType(),
)
"""What the sink takes; it needs only `body`, which may be text too."""


def of(options: Options) -> StructType:
    """The columns that a read with these options has. Spark asks before it tells whether it will
    stream, so the further columns of a batch read come with its option `state`."""
    if options.journal:
        return EVENTS
    found = LOOKED_AT if options.state else MESSAGES
    fields = [
        field
        for field in found.fields
        if (options.body or field.name != "body")
        and (options.attributes or field.name != "attributes")
    ]
    if options.reservation:
        fields.append(StructField("reservation", StringType(), nullable=True))
    return StructType(fields)


def arrow(schema: StructType) -> pa.Schema:
    """The same for Arrow: Spark takes batches of exactly this schema and no other."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
