"""Small files become large ones; a reader sees each row once before, after and in between."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import InvalidArgument, Unavailable
from holdfast.spark.jobs import compaction
from holdfast.spark.jobs.compaction import compact

DAY = "queue=orders/day=2026-01-01"


class Died(Exception):
    """As if the process had been killed here."""


@pytest.fixture(scope="module")
def parts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five small files of ten rows each."""
    folder = tmp_path_factory.mktemp("parts")
    rows = spark.range(0, 50, 1, 5).selectExpr("cast(id AS STRING) AS id", "'x' AS body")
    rows.write.parquet(str(folder / "rows"))
    return sorted((folder / "rows").glob("part-*"))


@pytest.fixture
def lake(tmp_path: Path, parts: list[Path]) -> Path:
    """An archive with four of them in one day; the fifth is for those who come late."""
    day = tmp_path / DAY
    day.mkdir(parents=True)
    for part in parts[:4]:
        shutil.copy(part, day)
    return tmp_path


def ids(spark: SparkSession, lake: Path) -> list[int]:
    return sorted(int(row.id) for row in spark.read.parquet(str(lake)).select("id").collect())


def files(lake: Path, day: str = DAY) -> list[str]:
    return sorted(file.name for file in (lake / day).glob("part-*"))


def test_small_files_of_a_day_become_one_and_the_second_time_there_is_nothing_to_do(
    spark: SparkSession, lake: Path
) -> None:
    [day] = compact(spark, str(lake))
    assert (day.folder, day.before, day.after) == (DAY, 4, 1)
    assert ids(spark, lake) == list(range(40))
    assert len(files(lake)) == 1
    assert compact(spark, str(lake)) == []
    assert [file.name for file in (lake / "_compacting").rglob("*") if file.is_file()] == ["_lock"]


def test_large_files_stay_as_they_are(spark: SparkSession, lake: Path, parts: list[Path]) -> None:
    large = lake / DAY / "part-large"
    spark.read.parquet(str(parts[4])).crossJoin(
        spark.range(1000).selectExpr("sha(cast(id AS STRING)) AS more")
    ).coalesce(1).write.parquet(str(lake / "_made"))
    next((lake / "_made").glob("part-*")).rename(large)
    before = large.read_bytes()
    limit = len(before)
    assert all((lake / DAY / name).stat().st_size < limit for name in files(lake)[:-1])
    [day] = compact(spark, str(lake), small=limit)
    assert (day.before, day.after) == (5, 2)
    assert large.read_bytes() == before


def test_days_that_are_not_over_are_left_alone(spark: SparkSession, lake: Path) -> None:
    assert compact(spark, str(lake), until=date(2026, 1, 1)) == []
    assert len(compact(spark, str(lake), until=date(2026, 1, 2))) == 1


def test_what_lands_meanwhile_is_not_lost(
    spark: SparkSession, lake: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = compaction._exchange

    def late(one: Path, other: Path) -> None:
        shutil.copy(parts[4], lake / DAY)
        exchange(one, other)

    monkeypatch.setattr(compaction, "_exchange", late)
    compact(spark, str(lake))
    assert ids(spark, lake) == list(range(50))
    assert len(files(lake)) == 2


@pytest.mark.parametrize("late", [False, True], ids=["alone", "with a file that lands meanwhile"])
@pytest.mark.parametrize("where", ["before the exchange", "after it", "when half is deleted"])
def test_a_crash_leaves_each_row_once_and_the_next_run_finishes(
    spark: SparkSession,
    lake: Path,
    parts: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    late: bool,
) -> None:
    exchange, delete = compaction._exchange, shutil.rmtree

    def die_before(one: Path, other: Path) -> None:
        raise Died

    def die_after(one: Path, other: Path) -> None:
        if late:
            shutil.copy(parts[4], lake / DAY)
        exchange(one, other)
        raise Died

    def come_late(one: Path, other: Path) -> None:
        if late:
            shutil.copy(parts[4], lake / DAY)
        exchange(one, other)

    def delete_half(folder: Path, ignore_errors: bool = False) -> None:
        if ignore_errors:
            return delete(folder, ignore_errors=True)
        next(folder.glob("part-*")).unlink()
        raise Died

    with monkeypatch.context() as patched:
        if where == "before the exchange":
            patched.setattr(compaction, "_exchange", die_before)
        elif where == "after it":
            patched.setattr(compaction, "_exchange", die_after)
        else:
            patched.setattr(compaction, "_exchange", come_late)
            patched.setattr(shutil, "rmtree", delete_half)
        with pytest.raises(Died):
            compact(spark, str(lake))
    came = late and where != "before the exchange"
    # What came in the middle of it may be out of sight until the next run; the rest never is.
    assert set(range(40)) <= set(ids(spark, lake)) <= set(range(50 if came else 40))
    assert len(ids(spark, lake)) == len(set(ids(spark, lake)))
    compact(spark, str(lake))
    assert ids(spark, lake) == list(range(50 if came else 40))
    assert len(files(lake)) == 1
    assert not list((lake / "_compacting").glob("queue=*/*"))
    assert not (lake / DAY / "_taken.json").exists()


def test_files_of_a_batch_that_is_still_being_moved_are_left_alone(
    spark: SparkSession, lake: Path
) -> None:
    home = lake / "_landing" / "of" / "orders" / "query"
    home.mkdir(parents=True)
    mine = files(lake)[0]
    (home / "7.moving").write_text(f'["{DAY}/{mine}"]')
    compact(spark, str(lake))
    assert mine in files(lake)
    assert ids(spark, lake) == list(range(40))


def test_two_compactions_of_one_folder_exclude_each_other(spark: SparkSession, lake: Path) -> None:
    with compaction._alone(lake), pytest.raises(Unavailable, match="another compaction"):
        compact(spark, str(lake))


def test_a_folder_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no folder"):
        compact(spark, str(tmp_path / "nowhere"))
