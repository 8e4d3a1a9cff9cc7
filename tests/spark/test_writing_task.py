"""Writing one partition: repeated after failures, in any order, beside itself. Needs no Spark."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdfast
from holdfast import InvalidArgument, Queue, QueueFull, Unavailable
from holdfast.engine import ledger
from holdfast.engine.ledger import Ledger
from holdfast.spark import target
from holdfast.spark.options import parse
from holdfast.spark.schema import OUTGOING
from holdfast.spark.sink import Task, Written
from tests.client.proxy import proxied
from tests.servers import cluster

NAME = Ledger("run", 0, 7, 60_000)
Row = dict[str, Any]


class FailedError(Exception):
    """What the tests' own tasks fail with."""


@pytest.fixture
def q(hf: holdfast.Client) -> Queue:
    return hf.queue(f"q{secrets.token_hex(4)}")


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def sharded(request: pytest.FixtureRequest, q: Queue) -> Queue:
    q.configure(shards=request.param)
    return q


def task(url: str, queue: str = "", **options: str) -> Task:
    where = {"queue": queue} if queue else {}
    return Task(parse({"url": url, "batchSize": "3"} | where | options, "write"), OUTGOING)


def batches(rows: Iterable[str | Row], size: int = 5) -> Iterator[pa.RecordBatch]:
    kinds = pa.schema(
        [
            ("body", pa.string()),
            ("attributes", pa.map_(pa.string(), pa.string())),
            ("priority", pa.int32()),
            ("delay_ms", pa.int64()),
            ("group", pa.string()),
            ("dedup_id", pa.string()),
            ("queue", pa.string()),
        ]
    )
    left = iter([{"body": row} if isinstance(row, str) else row for row in rows])
    while some := list(islice(left, size)):
        yield pa.RecordBatch.from_pylist(some, schema=kinds)


def fails_after(rows: list[str], n: int) -> Iterator[pa.RecordBatch]:
    """The first n rows, one by one, and then the end of the task."""
    yield from batches(rows[:n], 1)
    raise FailedError


def bodies(queue: Queue) -> list[str]:
    return [m.text for m in queue.inspect("ready", 0, 100_000)]


def test_a_task_that_is_repeated_sends_the_rest(server_url: str, sharded: Queue) -> None:
    rows = [f"row {i}" for i in range(20)]
    writer = task(server_url, sharded.name)
    with pytest.raises(FailedError):
        writer.write(fails_after(rows, 15), NAME)
    early = sharded.stats().ready
    assert 0 < early < 20
    written = writer.write(batches(rows), NAME)
    assert (written.rows, written.repeated) == (20, early)
    assert sorted(bodies(sharded)) == sorted(rows)


def test_the_order_of_rows_may_be_another_when_a_task_is_repeated(
    server_url: str, sharded: Queue
) -> None:
    rows = ["a", "b", "b", "c", "d", "d", "d", "e"] * 3
    writer, chance = task(server_url, sharded.name), random.Random(4)
    for n in (4, 9, 17):
        chance.shuffle(rows)
        with pytest.raises(FailedError):
            writer.write(fails_after(rows, n), NAME)
    chance.shuffle(rows)
    writer.write(batches(rows), NAME)
    assert Counter(bodies(sharded)) == Counter(rows)
    # And again, when all of it is there.
    assert writer.write(batches(rows), NAME).repeated == len(rows)
    assert Counter(bodies(sharded)) == Counter(rows)


def test_rows_that_differ_in_anything_are_not_taken_for_each_other(
    server_url: str, q: Queue
) -> None:
    rows: list[str | Row] = [
        {"body": "x"},
        {"body": "x", "priority": 1},
        {"body": "x", "attributes": [("a", "1")]},
        {"body": "x", "attributes": [("a", "2")]},
        {"body": "x", "delay_ms": 3_600_000},
        {"body": "x", "delay_ms": 3_600_001},
        {"body": "x", "group": "g"},
        {"body": "x", "dedup_id": "d"},
        {"body": "x", "dedup_id": "e"},
    ]
    writer = task(server_url, q.name)
    for i in range(len(rows)):
        name = Ledger("run", i, 0, 60_000)
        writer.write(batches(rows[i : i + 1]), name)
        rest = rows[i + 1 :] + rows[:i]
        before = q.stats().total + q.stats().duplicates
        assert writer.write(batches(rest), name).repeated == 0
        assert q.stats().total + q.stats().duplicates == before + len(rest)


def test_a_map_in_another_order_is_the_same_row(server_url: str, q: Queue) -> None:
    writer = task(server_url, q.name)
    one, other = [("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")]
    writer.write(batches([{"body": "x", "attributes": one}]), NAME)
    assert writer.write(batches([{"body": "x", "attributes": other}]), NAME).repeated == 1
    assert q.inspect("ready")[0].attributes == {"a": "1", "b": "2"}


def test_two_attempts_at_once_send_each_row_once(server_url: str, sharded: Queue) -> None:
    rows = [f"row {i % 13}" for i in range(40)]
    writer = task(server_url, sharded.name)

    def overtaken(by: Callable[[], object]) -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(batches(rows, 4)):
            if i == 5:
                by()
            yield batch

    backwards = list(reversed(rows))
    writer.write(overtaken(lambda: writer.write(batches(backwards), NAME)), NAME)
    assert Counter(bodies(sharded)) == Counter(rows)


def test_a_call_whose_answer_was_lost_is_carried_out_once(server_url: str, q: Queue) -> None:
    rows = [f"row {i}" for i in range(10)]
    with proxied(server_url) as proxy:
        proxy.lose(b"hf1_send_once", 2)
        task(proxy.url, q.name).write(batches(rows), NAME)
        assert proxy.lost == 2
    assert bodies(q) == rows


def test_partitions_and_runs_do_not_know_each_others_rows(server_url: str, q: Queue) -> None:
    writer = task(server_url, q.name)
    for name in (NAME, NAME._replace(part=1), NAME._replace(run="other")):
        writer.write(batches(["same"]), name)
    assert bodies(q) == ["same"] * 3


def test_the_next_batch_of_a_query_starts_anew_and_the_last_is_over(
    server_url: str, q: Queue
) -> None:
    writer = task(server_url, q.name)
    writer.write(batches(["same"]), NAME)
    writer.write(batches(["same"]), NAME._replace(generation=8))
    assert bodies(q) == ["same", "same"]
    with pytest.raises(InvalidArgument, match=r"batch 7 was sent .* come to batch 8"):
        writer.write(batches(["same"]), NAME)
    assert bodies(q) == ["same", "same"]


def test_shards_may_be_given_up_while_a_task_writes(server_url: str, q: Queue) -> None:
    q.configure(shards=4)
    rows: list[Row] = [
        {"body": f"row {i}", "group": f"g{i % 7}" if i % 2 else None} for i in range(60)
    ]
    gone = 0

    def interrupted() -> Iterator[pa.RecordBatch]:
        nonlocal gone
        for i, batch in enumerate(batches(rows, 4)):
            if i == 6:
                gone = q.purge()
                q.configure(shards=1)
            yield batch

    task(server_url, q.name).write(interrupted(), NAME)
    assert 0 < gone < 60
    stats = q.stats()
    assert stats.ready == 60 - gone
    assert len(q.refs()) == 1


def test_shards_may_be_added_between_attempts(server_url: str, q: Queue) -> None:
    rows = [f"row {i}" for i in range(30)]
    writer = task(server_url, q.name)
    with pytest.raises(FailedError):
        writer.write(fails_after(rows, 20), NAME)
    q.configure(shards=4)
    writer.write(batches(rows), NAME)
    assert sorted(bodies(q)) == sorted(rows)


def test_shards_may_be_added_while_a_task_writes(server_url: str, q: Queue) -> None:
    rows = [f"row {i}" for i in range(60)]

    def growing() -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(batches(rows)):
            if i == 3:
                q.configure(shards=3)
            yield batch

    task(server_url, q.name).write(growing(), NAME)
    assert sorted(bodies(q)) == sorted(rows)
    assert len({m.shard for m in q.inspect("ready", 0, 100)}) == 3


def test_rows_keep_their_order(server_url: str, q: Queue) -> None:
    rows = [f"row {i}" for i in range(100)]
    task(server_url, q.name).write(batches(rows, 7), NAME)
    assert bodies(q) == rows


def test_groups_keep_their_order_over_shards(server_url: str, q: Queue) -> None:
    q.configure(shards=3, group_limit=1000)
    rows: list[str | Row] = [{"body": f"{i}", "group": f"g{i % 4}"} for i in range(80)]
    task(server_url, q.name).write(batches(rows), NAME)
    got: dict[str, list[int]] = {}
    while some := q.receive_many(100):
        for each in some:
            got.setdefault(each.group or "", []).append(int(each.text))
        q.ack_many(some)
    assert got == {f"g{i}": list(range(i, 80, 4)) for i in range(4)}


def test_a_full_queue_fails_the_task_and_the_next_attempt_sends_the_rest(
    server_url: str, q: Queue
) -> None:
    q.configure(max_length=5)
    rows = [f"row {i}" for i in range(8)]
    with pytest.raises(QueueFull, match="max_length"):
        task(server_url, q.name).write(batches(rows), NAME)
    assert bodies(q) == rows[:3]
    q.configure(max_length=None)
    task(server_url, q.name).write(batches(rows), NAME)
    assert bodies(q) == rows


def test_a_server_that_lost_writes_fails_the_task_and_the_next_attempt_mends_it(
    server_url: str, q: Queue, hf: holdfast.Client
) -> None:
    rows = [f"row {i}" for i in range(20)]

    def losing() -> Iterator[pa.RecordBatch]:
        for i, batch in enumerate(batches(rows)):
            if i == 2:  # as after a failover to a replica that had nothing yet
                q.purge()
                key = ledger.key(q.refs()[0], NAME.run, NAME.part)
                hf.transport.command("DEL", key, key=key)
            yield batch

    with pytest.raises(Unavailable, match="no longer has all that this task has sent"):
        task(server_url, q.name).write(losing(), NAME)
    task(server_url, q.name).write(batches(rows), NAME)
    assert sorted(bodies(q)) == sorted(rows)


def test_large_rows_go_in_calls_that_do_not_hold_the_server(
    server_url: str, q: Queue, monkeypatch: pytest.MonkeyPatch, hf: holdfast.Client
) -> None:
    monkeypatch.setattr(target, "_CALL_BYTES", 1000)
    rows = ["x" * 5000, "y" * 400, "z" * 400, "a" * 400, "b"]
    task(server_url, q.name, batchSize="100").write(batches(rows), NAME)
    assert bodies(q) == rows
    key = ledger.key(q.refs()[0], NAME.run, NAME.part)
    found = hf.transport.command("LRANGE", key, 1, 100, key=key)
    assert [len(ledger.split(entry)) for entry in found] == [1, 2, 2]


def test_rows_go_to_the_queue_that_they_name(server_url: str, hf: holdfast.Client) -> None:
    mark = secrets.token_hex(4)
    rows: list[str | Row] = [{"body": f"{i}", "queue": f"{mark}-{i % 3}"} for i in range(30)]
    writer = task(server_url)
    written = writer.write(batches(rows), NAME)
    assert sorted(written.queues) == [f"{mark}-{i}" for i in range(3)]
    for i in range(3):
        assert bodies(hf.queue(f"{mark}-{i}")) == [f"{n}" for n in range(i, 30, 3)]
    assert writer.write(batches(rows), NAME).repeated == 30


def test_a_queue_that_keeps_no_dedup_ids_refuses_rows_that_have_one(
    server_url: str, q: Queue
) -> None:
    q.configure(dedup_window=0)
    writer = task(server_url, q.name)
    writer.write(batches(["without"]), NAME)
    with pytest.raises(InvalidArgument, match="its dedup_window is 0"):
        writer.write(batches([{"body": "with", "dedup_id": "x"}]), NAME._replace(part=1))
    assert bodies(q) == ["without"]


def test_dedup_ids_of_rows_hold_across_runs(server_url: str, q: Queue) -> None:
    rows: list[str | Row] = [{"body": "a", "dedup_id": "1"}, {"body": "b", "dedup_id": "2"}]
    writer = task(server_url, q.name)
    writer.write(batches(rows), NAME)
    rows.append({"body": "c", "dedup_id": "3"})
    written = writer.write(batches(rows), NAME._replace(run="another"))
    assert written == Written(0, 3, 2, 0, ("",))
    assert bodies(q) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"body": None}, r"row 6 of this partition: body is NULL; .*body IS NOT NULL"),
        ({"body": "x", "priority": 10}, r"row 6 of this partition: priority must be from 0 to 9"),
        ({"body": "x", "delay_ms": -1}, r"row 6 of this partition: delay must be from 0"),
        ({"body": "x", "group": ""}, r"row 6 of this partition: group must have 1 to 200"),
        ({"body": "x", "dedup_id": "a\n"}, r"row 6 of this partition: dedup_id 'a\\n' has char"),
        ({"body": "x", "attributes": [("a", None)]}, r"row 6 of this partition: attribute 'a'"),
    ],
)
def test_a_bad_value_is_told_with_its_row_and_nothing_of_its_batch_is_sent(
    server_url: str, q: Queue, row: Row, says: str
) -> None:
    rows: list[str | Row] = [f"{i}" for i in range(6)]
    with pytest.raises(InvalidArgument, match=says):
        task(server_url, q.name).write(batches([*rows, row, "after"]), NAME)
    assert "after" not in bodies(q)


def test_a_null_queue_is_told_with_its_row(server_url: str) -> None:
    rows: list[str | Row] = [{"body": "a", "queue": "x"}, {"body": "b"}]
    with pytest.raises(InvalidArgument, match="row 1 of this partition: queue is NULL"):
        task(server_url).write(batches(rows), NAME)


@pytest.mark.slow
def test_a_cluster_with_a_sharded_queue(tmp_path: Path) -> None:
    rows = [f"row {i % 70}" for i in range(100)]
    with cluster(tmp_path) as nodes:
        url = "redis://" + ",".join(f"{host}:{port}" for host, port in nodes)
        with holdfast.connect(url, check="off") as hf:
            queue = hf.queue("wide")
            queue.configure(shards=3)
            writer = task(url, "wide")
            with pytest.raises(FailedError):
                writer.write(fails_after(rows, 60), NAME)
            random.Random(5).shuffle(rows)
            writer.write(batches(rows), NAME)
            assert Counter(bodies(queue)) == Counter(rows)
            assert {m.shard for m in queue.inspect("ready", 0, 1000)} == {0, 1, 2}
