"""The pages about Spark: the tours run as they stand, and the tables leave nothing out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from holdfast.spark import options, schema

DOCS = Path(__file__).parents[2] / "docs"
BIN = Path(sys.executable).parent


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run(words: list[str], folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")}
    environment |= {"HOLDFAST_HOME": str(folder / "home"), "PATH": f"{BIN}:{os.environ['PATH']}"}
    environment["COLUMNS"] = "200"  # tables are not cut
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_the_tour_for_spark_users(tmp_path: Path) -> None:
    [program] = blocks("spark.md", "python")
    out = run([sys.executable, "-c", program], tmp_path)
    for line in (
        "waiting: 1000",
        "batches: [400, 400, 200]",
        "left: 0 sent on: 500",
        "stored: 500 different: 500",
        "acked 1000",
        "received 1000",
        "sent 1000",
    ):
        assert line in out.splitlines(), out


@pytest.mark.slow
@pytest.mark.spark
def test_the_tour_for_queue_users(tmp_path: Path) -> None:
    script = blocks("spark-for-queue-users.md", "sh")[-1]
    out = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    assert "expected value.cents >= 200" in out
    stored = parquet.read_table(tmp_path / "tea-lake").to_pylist()
    assert sorted(row["euros"] for row in stored) == [2.0, 3.0, 4.0, 5.0]


def test_every_option_and_column_is_on_the_page() -> None:
    page = (DOCS / "spark.md").read_text("utf-8")
    known = {name for names in options._NAMES.values() for name in names}
    own = known - {"checkpointLocation", "queryName"}  # Spark's
    assert {name for name in own if f"`{name}`" not in page} == set()
    columns = {f.name for s in (schema.LOOKED_AT, schema.EVENTS, schema.OUTGOING) for f in s.fields}
    assert {name for name in columns if not re.search(rf"\b{name}\b", page)} == set()


def test_every_job_is_on_the_page_for_queue_users() -> None:
    from holdfast.cli import spark_jobs

    page = (DOCS / "spark-for-queue-users.md").read_text("utf-8")
    names = {command.__name__ for command in spark_jobs.COMMANDS} - {"compact"}
    assert {name for name in names if f"holdfast spark {name}" not in page} == set()
