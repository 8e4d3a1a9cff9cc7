"""The schema of JSON bodies: as declared, or as the messages that wait suggest.

Inferred once: the checkpoint keeps it, since a batch that is done again must give the same rows, whatever
waits in the queue by then. Messages are only looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidArgument
from holdfast.spark.jobs.files import Files
from holdfast.spark.place import Place


class Asked(Protocol):
    @property
    def source(self) -> Place: ...
    @property
    def checkpoint(self) -> str: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def infer(self) -> int: ...


def schema(
    spark: SparkSession, files: Files, asked: Asked, say: Callable[[str], None]
) -> StructType | None:
    """None where neither is asked for: bodies are then not looked into."""
    if asked.schema is not None:
        if asked.infer:
            raise InvalidArgument("a schema is declared or inferred, not both")
        return declared(asked.schema)
    if not asked.infer:
        return None
    kept = f"{asked.checkpoint.rstrip('/')}/inferred-schema.json"
    if files.exists(kept):
        found = StructType.fromJson(_decoded(files.read(kept)))
        say(f"value has the schema inferred at the first start: {ddl(found)}")
        return found
    found = _inferred(spark, asked.source, asked.infer)
    files.put(kept, found.json())
    say(f"value has the inferred schema: {ddl(found)}")
    return found


def declared(text: str) -> StructType:
    """number INT, tea STRING as a type. Raises InvalidArgument."""
    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        raise InvalidArgument(
            f"--schema: {text!r} is not a list of columns; write for example 'number INT, tea STRING'"
        ) from error
    assert isinstance(found, StructType)
    return found


def ddl(schema: StructType) -> str:
    """As it would be declared."""
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)


def _inferred(spark: SparkSession, source: Place, most: int) -> StructType:
    waiting = source.target().inspect("ready", count=most)
    texts = []
    for message in waiting:
        try:
            texts.append(message.body.decode())
        except UnicodeDecodeError:
            continue
    if not texts:
        raise InvalidArgument(
            f"there is nothing in {source.name!r} to infer a schema from; declare it with --schema"
        )
    found = spark.read.json(spark.sparkContext.parallelize(texts, 1)).schema
    fields = [field for field in found.fields if field.name != "_corrupt_record"]
    if not fields:
        raise InvalidArgument(
            f"none of {len(texts)} messages in {source.name!r} is a JSON object; leave --infer out, "
            "and use `text` or `body`"
        )
    return StructType(fields)


def _decoded(text: str) -> dict[str, object]:
    import msgspec

    return msgspec.json.decode(text, type=dict[str, object])
