"""Batches land in a folder once, wherever the job was when it died."""

from __future__ import annotations

import uuid
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import HoldfastError, ReservationLost
from holdfast.spark.jobs.files import Files
from holdfast.spark.jobs.landing import Landing, landed


class Died(Exception):
    """As if the process had been killed here."""


class Mortal(Files):
    """Dies at its n-th step: before it, or when it is done."""

    def __init__(self, spark: SparkSession, path: str, steps: int, after: bool) -> None:
        super().__init__(spark, path)
        self._left = steps
        self._after = after

    def _step(self, name: str, *words: str) -> Any:
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Died
        done = getattr(super(), name)(*words)
        if self._left < 0:
            raise Died
        return done

    def exists(self, path: str) -> bool:
        return bool(self._step("exists", path))

    def names(self, folder: str) -> list[str]:
        return list(self._step("names", folder))

    def below(self, folder: str) -> list[str]:
        return list(self._step("below", folder))

    def move(self, source: str, target: str) -> None:
        self._step("move", source, target)

    def delete(self, path: str) -> None:
        self._step("delete", path)

    def read(self, path: str) -> str:
        return str(self._step("read", path))

    def put(self, path: str, text: str) -> None:
        self._step("put", path, text)


def write(rows: DataFrame, folder: str) -> None:
    """As Spark does: some files in partition folders, under names that no other try will use."""
    for name in ("a", "b", "c"):
        home = Path(folder, f"day={name}")
        home.mkdir(parents=True)
        (home / f"part-{uuid.uuid4().hex}").write_text(f"{name}\n")
    Path(folder, "_SUCCESS").touch()


def seen(root: Path) -> Counter[str]:
    """What a reader of the folder finds: names with _ or . in front are not for it."""
    found: Counter[str] = Counter()
    for file in root.rglob("*"):
        inner = file.relative_to(root).parts
        if file.is_file() and not any(part.startswith(("_", ".")) for part in inner):
            found.update(file.read_text().split())
    return found


ONCE = Counter("abc")


@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])
def test_a_batch_lands_once_wherever_the_job_dies(
    spark: SparkSession, tmp_path: Path, after: bool
) -> None:
    rows, files = spark.range(1), Files(spark, str(tmp_path))
    deaths = 0
    for steps in count():
        root = tmp_path / str(steps)
        root.mkdir()
        dying = Landing(Mortal(spark, str(root), steps, after), str(root), "orders", "query")
        try:
            dying.land(rows, 0, write)
        except Died:
            deaths += 1
        else:
            break
        finally:
            assert seen(root) <= ONCE, f"after {steps} steps"
        again = Landing(files, str(root), "orders", "query")
        again.land(rows, 0, write)
        assert seen(root) == ONCE, f"after {steps} steps"
        again.land(rows, 1, write)
        assert seen(root) == ONCE + ONCE
        left = sorted(file.name for file in (root / "_landing").rglob("*") if file.is_file())
        assert [name for name in left if not name.startswith(".")] == ["1.done"]
    assert deaths > 15  # each step was tried


def test_a_batch_that_landed_is_left_out_when_it_is_done_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    landing = Landing(Files(spark, str(tmp_path)), str(tmp_path), "orders", "query")
    assert landing.land(spark.range(1), 4, write) == 3
    assert landing.land(spark.range(1), 4, write) == 0
    assert seen(tmp_path) == ONCE


def test_queries_that_share_a_folder_do_not_skip_each_others_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = Files(spark, str(tmp_path))
    for source, query in (("orders", "a"), ("orders", "b"), ("a/b", "c")):
        assert not landed(files, str(tmp_path), "a/b")
        Landing(files, str(tmp_path), source, query).land(spark.range(1), 0, write)
    assert landed(files, str(tmp_path), "a/b")
    assert seen(tmp_path) == ONCE + ONCE + ONCE


def test_an_old_copy_of_a_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    landing = Landing(Files(spark, str(tmp_path)), str(tmp_path), "orders", "query")
    landing.land(spark.range(1), 4, write)
    with pytest.raises(ReservationLost, match="old copy"):
        landing.land(spark.range(1), 3, write)


def test_files_that_somebody_took_away_are_not_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Dies while files are being moved.
    landing = Landing(Mortal(spark, str(tmp_path), 9, False), str(tmp_path), "orders", "query")
    with pytest.raises(Died):
        landing.land(spark.range(1), 0, write)
    assert 0 < seen(tmp_path).total() < 3
    [staged] = tmp_path.rglob("staged-0")
    for file in staged.rglob("part-*"):
        file.unlink()
    again = Landing(Files(spark, str(tmp_path)), str(tmp_path), "orders", "query")
    with pytest.raises(HoldfastError, match="somebody took it away"):
        again.land(spark.range(1), 0, write)
