"""The jobs of `holdfast spark`, and how to hand them to spark-submit."""

from __future__ import annotations

import importlib.util
from typing import Any

from holdfast.cli import output, spark_archive, spark_bridge, spark_lake, spark_work


def program() -> None:
    """Print the path of the program that spark-submit runs; it takes the same arguments.

    \b
    spark-submit --master yarn "$(holdfast spark program)" archive orders --to hdfs:///lake
    """
    found = importlib.util.find_spec("pyspark_holdfast")
    assert found is not None
    assert found.submodule_search_locations is not None
    output.say(f"{found.submodule_search_locations[0]}/submit.py")


COMMANDS: list[Any] = [
    spark_archive.archive,
    spark_archive.compact,
    spark_lake.replay,
    spark_bridge.bridge,
    spark_lake.report,
    spark_lake.redrive,
    spark_work.work,
    program,
]
