"""Message ids in SQL: `ms-seq`, and `-shard` where a queue has several."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def order(id_: str = "id") -> list[Column]:
    """To sort by: as text, -10 would come before -9."""
    parts = F.split(id_, "-")
    return [
        F.get(parts, F.lit(0)).cast("long"),
        F.coalesce(F.get(parts, F.lit(2)).cast("int"), F.lit(0)),
        F.get(parts, F.lit(1)).cast("long"),
    ]
