"""A driver that dies, again and again: nothing is lost, nothing is there twice.

Queries are broken off at points of a batch that differ from time to time: planned, half written, in the sink,
done. What they wrote is then read through Spark. A test that takes `broken` runs twice: its queries are
stopped in the Spark of the tests; and, in `make torture` only, are programs of their own that are killed -9.
Those that take `killed` are killed in `make test` too, for there the kill itself is the point; what comes
after the last kill needs no Java of its own.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import holdfast
from tests import servers
from tests.spark.cluster import EXECUTOR, spark_cluster
from tests.spark.crash.driver import Program
from tests.spark.crash.jobs import Archive, Bridge
from tests.spark.crash.killing import Killed, Stopped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

torture = pytest.mark.torture


class Scene:
    """A queue of its own, and a program that reads it into a folder of its own."""

    def __init__(self, spark: SparkSession, hf: holdfast.Client, folder: Path) -> None:
        self.spark = spark
        self.q = hf.queue(f"crash {folder.name}")
        self.folder = folder
        self.program = Program(
            hf.url, self.q.name, str(folder / "checkpoint"), str(folder / "lake")
        )

    def send(self, count: int) -> set[str]:
        return set(self.q.send_many(b"%d " % n + b"x" * 90 for n in range(count)))

    def stored(self, *folders: str) -> Counter[str]:
        """How often each id is in the lake."""
        paths = folders or (self.program.parquet,)
        found: Counter[str] = Counter()
        for path in paths:
            rows = self.spark.read.parquet(path).groupBy("id").count().collect()
            found.update({row["id"]: row["count"] for row in rows})
        return found

    def check(self, ids: set[str], *folders: str) -> None:
        stored = self.stored(*folders)
        lost, twice = ids - set(stored), {i for i, n in stored.items() if n > 1}
        assert (len(lost), len(twice)) == (0, 0), f"{len(lost)} lost, {len(twice)} twice"
        assert set(stored) == ids
        stats = self.q.stats()
        assert (stats.total, stats.acked) == (0, len(ids))


@pytest.fixture
def scene(spark: SparkSession, hf: holdfast.Client, tmp_path: Path) -> Scene:
    return Scene(spark, hf, tmp_path)


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    return Killed(tmp_path / "log")


@pytest.fixture
def stopped(spark: SparkSession) -> Stopped:
    return Stopped(spark)


@pytest.fixture(params=["stopped", pytest.param("killed", marks=torture)])
def broken(request: pytest.FixtureRequest, stopped: Stopped, killed: Killed) -> Stopped | Killed:
    return killed if request.param == "killed" else stopped


@pytest.mark.parametrize(
    ("kills", "messages"), [(1, 12_000), pytest.param(10, 100_000, marks=torture)]
)
def test_kills_of_the_driver_lose_nothing_and_double_nothing(
    scene: Scene, killed: Killed, stopped: Stopped, kills: int, messages: int
) -> None:
    ids = scene.send(messages)
    program = replace(scene.program, options={"maxRowsPerTrigger": "4000"})
    killed.crash(program, times=kills, seed=1, after="" if kills > 1 else "files written")
    stopped.finish(replace(program, options={"maxRowsPerTrigger": "40000"}))
    scene.check(ids)


def test_neither_do_two_queries_with_failing_tasks_and_options_that_change(
    scene: Scene, broken: Stopped | Killed
) -> None:
    ids = scene.send(6_000)
    one = replace(scene.program, options={"maxRowsPerTrigger": "1000"}, failing=True)
    other = replace(
        one, checkpoint=str(scene.folder / "other"), parquet=str(scene.folder / "other lake")
    )
    changed = {"maxRowsPerTrigger": "2000", "minPartitions": "5", "fetchSize": "300"}
    broken.crash(one, times=1, seed=2, after="files written")
    broken.crash(other, times=1, seed=3, after="batches planned")
    broken.crash(replace(other, options=changed), times=1, seed=5, after="batches in the sink")
    broken.finish(replace(one, options={"minPartitions": "1"}))
    broken.finish(other)
    scene.check(ids, one.parquet, other.parquet)


@torture
def test_neither_does_a_standalone_cluster_of_two_workers(scene: Scene, killed: Killed) -> None:
    """Not only threads of the driver: a master and two workers, with executors of their own."""
    ids = scene.send(20_000)
    with spark_cluster(scene.folder) as master:
        options = {"maxRowsPerTrigger": "5000", "minPartitions": "4"}
        program = replace(scene.program, master=master, conf=EXECUTOR, options=options)
        killed.crash(program, times=1, seed=9, after="files written")
        killed.finish(program)
    scene.check(ids)


def test_neither_does_a_sharded_queue_on_a_cluster(
    spark: SparkSession, tmp_path: Path, broken: Stopped | Killed
) -> None:
    with servers.cluster(tmp_path / "valkey") as nodes:
        url = "redis://" + ",".join(f"{host}:{port}" for host, port in nodes)
        with holdfast.connect(url, check="off") as client:
            scene = Scene(spark, client, tmp_path)
            scene.q.configure(shards=6)
            ids = scene.send(20_000)
            options = {"maxRowsPerTrigger": "4000"}
            program = replace(scene.program, url=url, options=options)
            broken.crash(program, times=1, seed=10, after="files written")
            broken.finish(program)
            scene.check(ids)


@torture
def test_acking_in_stop_would_lose_messages_and_is_caught(
    scene: Scene, killed: Killed, stopped: Stopped
) -> None:
    """The check above can fail: a reader that acks in stop() loses what it had not written."""
    ids = scene.send(20_000)
    program = replace(scene.program, options={"maxRowsPerTrigger": "4000"}, ack_in_stop=True)
    killed.crash(program, times=1, seed=6, after="files written", jvm_only=True)
    with pytest.raises((AssertionError, StreamingQueryException)):
        stopped.finish(program)
        scene.check(ids)


@torture
def test_a_killed_jvm_alone_loses_nothing(scene: Scene, killed: Killed, stopped: Stopped) -> None:
    """Its Python processes live on for a moment, and are told to stop: that must do nothing."""
    ids = scene.send(20_000)
    program = replace(scene.program, options={"maxRowsPerTrigger": "4000"})
    killed.crash(program, times=1, seed=6, after="files written", jvm_only=True)
    stopped.finish(program)
    scene.check(ids)


def test_a_checkpoint_restored_from_an_old_copy_is_refused(
    scene: Scene, broken: Stopped | Killed
) -> None:
    checkpoint = Path(scene.program.checkpoint)
    ids = scene.send(1_000)
    broken.finish(scene.program)
    shutil.copytree(checkpoint, scene.folder / "copy")
    ids |= scene.send(1_000)
    broken.finish(scene.program)
    shutil.rmtree(checkpoint)
    (scene.folder / "copy").rename(checkpoint)
    scene.q.send_many(b"new" for _ in range(10))
    said = broken.fails(scene.program)
    assert "ReservationLost" in said
    assert "is committed already" in said
    assert scene.q.stats().ready == 10, "nothing was taken under an old name"
    assert set(scene.stored()) == ids


def test_a_deleted_checkpoint_is_noticed_and_its_messages_can_be_had_back(
    scene: Scene, broken: Stopped | Killed
) -> None:
    program = replace(scene.program, options={"maxRowsPerTrigger": "1000"})
    ids = scene.send(20_000)
    broken.crash(program, times=1, seed=7)
    held = scene.q.reservations()
    shutil.rmtree(program.checkpoint)
    said = broken.fails(program)
    # The sink believes to have those batches: Spark would skip them, and their messages be lost.
    assert "ReservationLost" in said
    assert "was never read" in said
    for owner in {r.owner for r in held}:
        scene.q.release_reserved(owner)
    assert scene.q.stats().reserved == 0
    again = replace(
        program,
        checkpoint=str(scene.folder / "new"),
        parquet=str(scene.folder / "new lake"),
        options={"maxRowsPerTrigger": "20000"},
    )
    broken.finish(again)
    assert scene.q.stats().total == 0
    # What the old lake has from before is there too; the released batch may be in both.
    assert set(scene.stored(program.parquet, again.parquet)) == ids


def test_queue_to_spark_to_queue_is_exactly_once(
    scene: Scene, hf: holdfast.Client, broken: Stopped | Killed
) -> None:
    far = hf.queue(f"{scene.q.name} far")
    bodies = {b"%d" % n for n in range(20_000)}
    scene.q.send_many(bodies)
    program = replace(
        scene.program, parquet="", to_queue=far.name, options={"maxRowsPerTrigger": "2000"}
    )
    broken.crash(program, times=3, seed=8)
    broken.finish(replace(program, options={"maxRowsPerTrigger": "20000"}))
    arrived = Counter[bytes]()
    while got := far.receive_many(1_000):
        arrived.update(d.body for d in got)
        far.ack_many(got)
    assert (len(bodies - set(arrived)), arrived.total() - len(arrived)) == (0, 0)
    assert set(arrived) == bodies
    assert scene.q.stats().total == 0


@torture
def test_the_archive_job_is_exactly_once_under_kills(
    scene: Scene, killed: Killed, stopped: Stopped
) -> None:
    ids = scene.send(20_000)
    job = Archive(scene.program.url, scene.q.name, str(scene.folder / "archive"))
    killed.crash(job, times=4, seed=11)
    stopped.finish(job)
    scene.check(ids, job.parquet)


@torture
def test_the_bridge_job_is_exactly_once_under_kills_dead_letters_too(
    scene: Scene, hf: holdfast.Client, killed: Killed, stopped: Stopped
) -> None:
    far = hf.queue(f"{scene.q.name} far")
    scene.q.send_many({"number": n, "cents": n % 1000} for n in range(20_000))
    job = Bridge(scene.program.url, scene.q.name, far.name, str(scene.folder / "checkpoint"))
    killed.crash(job, times=2, seed=12)
    stopped.finish(job)
    arrived = Counter(m.json()["number"] for m in far.inspect("ready", 0, 30_000))
    dead = Counter(m.json()["number"] for m in scene.q.inspect("dead", 0, 30_000))
    assert arrived == Counter(n for n in range(20_000) if n % 1000 >= 100)
    assert dead == Counter(n for n in range(20_000) if n % 1000 < 100)
    assert scene.q.stats().total == len(dead)
