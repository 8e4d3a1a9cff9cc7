"""One Spark and one server for all tests of a process: both cost seconds to start.

Of two test processes each may start its own. Worksteal hands out the tests in long runs of
neighbours, so that it seldom comes to more than one Spark; xdist's groups, which would make sure,
do nothing with this version of pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.spark import session
from tests.servers import standalone


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    made = session.build(
        "holdfast tests",
        "local[2,3]",  # tasks may fail, and are tried again
        {
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            # A few rows are not worth compiling for; jobs in processes of their own run as users run them.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
    )
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("spark-server")) as url:
        yield url


@pytest.fixture
def hf(server_url: str) -> Iterator[holdfast.Client]:
    with holdfast.connect(server_url, check="off") as client:
        yield client
