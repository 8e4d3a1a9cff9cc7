"""The reliable queue's commands: each row of their table, and each edge, in RESP2 and RESP3."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

import holdfast
from holdfast.engine.keys import QueueRef
from tests.clock import Clock
from tests.servers import wait_until

MQ = Callable[..., Any]


@pytest.fixture
def clock(valkey: str, name: str) -> Any:
    with holdfast.connect(valkey, check="off") as hf:
        yield Clock(hf.queue(name))


@pytest.fixture
def foreign(valkey: str, name: str) -> str:
    """The key of a queue of that name holds something else."""
    with redis.Redis.from_url(valkey) as raw:
        raw.rpush(QueueRef(name).key, "a list")
    return name


def refused(mq: MQ, *command: object) -> str:
    """What the server said, its first word included."""
    with pytest.raises(redis.ResponseError) as caught:
        mq(*command)
    return str(caught.value)


# ---- MQ.PUSH ---------------------------------------------------------------------------------


def test_push_answers_ids_in_order(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, "a", "b", "c")
    assert all(re.fullmatch(rb"\d+-\d+", i) for i in ids)
    assert sorted(ids) == ids
    assert [i for i, _ in mq("MQ.INSPECT", name, 0, 10)] == ids


def test_push_takes_any_bytes_and_any_word(mq: MQ, name: str) -> None:
    bodies = [b"", b"\0\r\n\xff", b"DELAY", b"FOR", b"x" * 100_000]
    mq("MQ.PUSH", name, *bodies)
    assert [body for _, body in mq("MQ.POP", 9, name)] == bodies


def test_push_to_a_key_of_another_type_is_refused(mq: MQ, foreign: str) -> None:
    assert refused(mq, "MQ.PUSH", foreign, "a").startswith("WRONGTYPE ")


@pytest.mark.parametrize("command", [["MQ.PUSH"], ["MQ.PUSH", "k"], ["mq.push", "k"]])
def test_push_without_an_element_is_a_usage_error(mq: MQ, command: list[str]) -> None:
    assert refused(mq, *command) == "wrong number of arguments for 'mq.push' command"


# ---- MQ.POP ----------------------------------------------------------------------------------


def test_pop_answers_pairs_of_id_and_payload(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, "a", "b", "c")
    assert mq("MQ.POP", 2, name) == [[ids[0], b"a"], [ids[1], b"b"]]
    assert mq("MQ.POP", 2, name) == [[ids[2], b"c"]]


def test_pop_of_a_missing_or_empty_queue_is_nil(mq: MQ, name: str) -> None:
    assert mq("MQ.POP", 1, name) is None
    mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    assert mq("MQ.POP", 1, name) is None
    assert mq("MQ.POP", "COUNT", 3, name) is None


@pytest.mark.parametrize("count", [0, -1])
@pytest.mark.parametrize("form", ["old", "new"])
def test_pop_of_less_than_one_is_refused(mq: MQ, name: str, count: int, form: str) -> None:
    command = ["MQ.POP", count, name] if form == "old" else ["MQ.POP", "COUNT", count, name]
    assert refused(mq, *command) == "count must be >= 1"


@pytest.mark.parametrize("count", ["x", "1.5", "", "9" * 30, "+1", " 1"])
def test_pop_of_no_number_is_refused(mq: MQ, name: str, count: str) -> None:
    assert refused(mq, "MQ.POP", count, name).startswith(
        "value is not an integer or out of range: count"
    )


def test_pop_from_a_key_of_another_type_is_refused(mq: MQ, foreign: str) -> None:
    assert refused(mq, "MQ.POP", 1, foreign).startswith("WRONGTYPE ")


def test_the_later_pop_takes_from_the_first_key_first(mq: MQ, name: str) -> None:
    first, second = f"{name}.1", f"{name}.2"
    mq("MQ.PUSH", second, "c", "d")
    mq("MQ.PUSH", first, "a", "b")
    got = mq("MQ.POP", "COUNT", 3, first, second)
    assert [[key.decode(), body] for key, _, body in got] == [
        [first, b"a"],
        [first, b"b"],
        [second, b"c"],
    ]
    [[key, _, body]] = mq("MQ.POP", first, second, "and.a.third")
    assert (key.decode(), body) == (second, b"d")


def test_queues_may_have_the_names_of_options(mq: MQ, name: str) -> None:
    mq("MQ.DELETE", "COUNT")
    mq("MQ.PUSH", "COUNT", "a")
    assert mq("MQ.POP", 1, "COUNT")[0][1] == b"a"
    mq("MQ.DELETE", "COUNT")


def test_pop_waits_for_a_message(mq: MQ, name: str, r: redis.Redis) -> None:
    with ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(mq, "MQ.POP", "BLOCK", 10_000, "nothing.here", name)
        wait_until(lambda: r.info("clients")["blocked_clients"] == 1, 10, "somebody waits")
        [pushed] = r.execute_command("MQ.PUSH", name, "late")
        assert waiting.result(10) == [[name.encode(), pushed, b"late"]]


def test_pop_waits_without_end_for_block_0(mq: MQ, name: str, r: redis.Redis) -> None:
    with ThreadPoolExecutor(1) as aside:
        waiting = aside.submit(mq, "MQ.POP", "BLOCK", 0, name)
        wait_until(lambda: r.info("clients")["blocked_clients"] == 1, 10, "somebody waits")
        r.execute_command("MQ.PUSH", name, "late")
        assert waiting.result(10)[0][2] == b"late"


def test_pop_ends_with_nil_when_its_time_is_over(mq: MQ, name: str) -> None:
    assert mq("MQ.POP", "COUNT", 1, "BLOCK", 50, name) is None


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["MQ.POP", "COUNT", 1], "key is missing"),
        (["MQ.POP", "BLOCK", 1], "key is missing"),
        (["MQ.POP", "BLOCK", -1, "k"], "must be >= 0"),
        (["MQ.POP"], "wrong number"),
        (["MQ.POP", 1], None),
    ],
)
def test_pop_says_what_is_missing(mq: MQ, command: list[object], says: str | None) -> None:
    if says is None:  # one argument: the later form, of a queue with a curious name
        assert mq(*command) is None
    else:
        assert says in refused(mq, *command)


@pytest.mark.parametrize("count", [["1"], ["COUNT", "1"]], ids=["first form", "later form"])
def test_what_was_popped_waits_without_end(
    mq: MQ, name: str, clock: Clock, count: list[str]
) -> None:
    mq("MQ.PUSH", name, "a")
    mq("MQ.POP", *count, name)
    clock.advance(10 * 24 * 3600)
    assert mq("MQ.POP", *count, name) is None
    assert len(mq("MQ.INSPECT", name, "PENDING", 0, 9)) == 1


@pytest.mark.parametrize("count", [["1"], ["COUNT", "1"]], ids=["first form", "later form"])
def test_unless_the_queue_has_a_lease(mq: MQ, name: str, clock: Clock, count: list[str]) -> None:
    mq("MQ.CONFIGURE", name, "lease_ms", 5000)
    mq("MQ.PUSH", name, "a")
    mq("MQ.POP", *count, name)
    clock.advance(4.9)
    assert mq("MQ.POP", *count, name) is None
    clock.advance(0.2)
    assert mq("MQ.POP", *count, name)[0][-1] == b"a"


# ---- MQ.ACK ----------------------------------------------------------------------------------


def test_ack_answers_the_ids_really_removed(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, "a", "b", "c")
    mq("MQ.POP", 2, name)
    assert mq("MQ.ACK", name, ids[1], ids[2], ids[0], "1-1") == [ids[1], ids[0]]
    assert mq("MQ.ACK", name, ids[1]) == []
    assert mq("MQ.QINFO", name) == [ids[2], 1, 0]


@pytest.mark.parametrize("count", [1, 5, 100, 1500])
def test_ack_of_all_that_was_popped_together(mq: MQ, name: str, count: int) -> None:
    ids = mq("MQ.PUSH", name, *map(str, range(count)))
    assert [i for i, _ in mq("MQ.POP", count, name)] == ids
    assert mq("MQ.ACK", name, *ids) == ids
    assert mq("MQ.ACK", name, *ids) == []
    assert mq("MQ.QINFO", name)[1:] == [0, 0]


def test_ack_of_a_batch_of_which_some_were_settled_by_others(
    mq: MQ, name: str, r: redis.Redis
) -> None:
    ids = mq("MQ.PUSH", name, *"abcdefghij")
    mq("MQ.POP", 10, name)
    r.execute_command("MQ.ACK", name, ids[3], ids[7])
    assert mq("MQ.ACK", name, *ids) == [i for i in ids if i not in (ids[3], ids[7])]


def test_an_id_acks_whichever_delivery_is_current(mq: MQ, name: str, r: redis.Redis) -> None:
    """Also when the batch it came with was taken over by somebody else meanwhile."""
    ids = mq("MQ.PUSH", name, *"abcdefghij")
    mq("MQ.POP", 10, name)
    r.execute_command("MQ.RECOVER", name, 4, 0)
    assert mq("MQ.ACK", name, *ids) == ids


def test_a_receipt_acks_its_own_delivery_only(mq: MQ, name: str) -> None:
    mq("MQ.PUSH", name, "a")
    [[_, one, _, receipt, *_]] = mq("MQ.RECEIVE", name)
    assert receipt.startswith(one + b"@")
    mq("MQ.RECOVER", name, 1, 0)
    assert mq("MQ.ACK", name, receipt) == []
    assert mq("MQ.ACK", name, one) == [one]


def test_a_receipt_may_be_written_at_length(mq: MQ, name: str) -> None:
    mq("MQ.PUSH", name, "a")
    [[_, _, _, receipt, *_]] = mq("MQ.RECEIVE", name)
    long = receipt.replace(b"@", b"@" + b"0" * 2000)
    assert mq("MQ.ACK", name, long) == [long]


def test_ack_on_a_missing_queue_is_nil(mq: MQ, name: str) -> None:
    assert mq("MQ.ACK", name, "1-1") is None


@pytest.mark.parametrize("bad", ["x", "1", "1-", "-1", "1-1-1-1", "1-1@x", b"\xff", ""])
def test_a_malformed_id_is_an_error_and_nothing_is_removed(mq: MQ, name: str, bad: object) -> None:
    [good] = mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    refused(mq, "MQ.ACK", name, good, bad)
    assert mq("MQ.QINFO", name)[2] == 1


def test_ack_on_a_key_of_another_type_is_refused(mq: MQ, foreign: str) -> None:
    assert refused(mq, "MQ.ACK", foreign, "1-1").startswith("WRONGTYPE ")


# ---- MQ.RECOVER ------------------------------------------------------------------------------


def test_recover_takes_the_oldest_deliveries_first(mq: MQ, name: str, clock: Clock) -> None:
    a, b, c = mq("MQ.PUSH", name, "a", "b", "c")
    for _ in range(3):
        mq("MQ.POP", 1, name)
        clock.advance(1)
    assert mq("MQ.RECOVER", name, 9, 2500) == [[a, b"a"]]
    clock.advance(1)
    # a is the youngest delivery now
    assert mq("MQ.RECOVER", name, 9, 2000) == [[b, b"b"], [c, b"c"]]
    pending = mq("MQ.INSPECT", name, "PENDING", 0, 9)
    assert [row[0] for row in pending] == [a, b, c]
    assert [row[4] for row in pending] == [2, 2, 2]
    assert [row[3] for row in pending] == [1000, 0, 0]


def test_recover_never_answers_a_message_twice(mq: MQ, name: str) -> None:
    ids = mq("MQ.PUSH", name, *"abcde")
    mq("MQ.POP", 5, name)
    assert [i for i, _ in mq("MQ.RECOVER", name, 100, 0)] == ids


def test_recover_goes_on_as_long_as_nobody_acks(mq: MQ, name: str) -> None:
    mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    for _ in range(12):
        assert len(mq("MQ.RECOVER", name, 1, 0)) == 1
    assert mq("MQ.INSPECT", name, "PENDING", 0, 1)[0][4] == 13


def test_recover_of_a_missing_queue_is_nil_and_of_nothing_an_empty_array(mq: MQ, name: str) -> None:
    assert mq("MQ.RECOVER", name, 1, 0) is None
    mq("MQ.PUSH", name, "a")
    assert mq("MQ.RECOVER", name, 1, 0) == []
    mq("MQ.POP", 1, name)
    assert mq("MQ.RECOVER", name, 1, 60_000) == []


def test_recover_checks_its_arguments(mq: MQ, name: str) -> None:
    assert refused(mq, "MQ.RECOVER", name, 0, 0) == "count must be >= 1"
    assert "must be >= 0" in refused(mq, "MQ.RECOVER", name, 1, -1)
    assert "not an integer" in refused(mq, "MQ.RECOVER", name, 1, "soon")
    assert "wrong number of arguments for 'mq.recover'" in refused(mq, "MQ.RECOVER", name, 1)


# ---- MQ.INSPECT and MQ.QINFO -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "count", "shows"),
    [
        (0, 2, "ab"),
        (1, 9, "bcde"),
        (-2, 9, "de"),
        (-2, 1, "d"),
        (-99, 2, "ab"),
        (5, 1, ""),
        (99, 1, ""),
    ],
)
@pytest.mark.parametrize("pending", [False, True])
def test_inspect_shows_a_window(
    mq: MQ, name: str, start: int, count: int, shows: str, pending: bool
) -> None:
    mq("MQ.PUSH", name, *"abcde")
    if pending:
        mq("MQ.POP", 5, name)
    rows = mq("MQ.INSPECT", name, *(["PENDING"] if pending else []), start, count)
    assert b"".join(row[1] for row in rows).decode() == shows


def test_inspect_pending_tells_times_and_counts_as_integers(
    mq: MQ, name: str, clock: Clock
) -> None:
    [one] = mq("MQ.PUSH", name, "a")
    mq("MQ.POP", 1, name)
    clock.advance(1.5)
    assert mq("MQ.INSPECT", name, "pending", 0, 1) == [[one, b"a", clock.ms - 1500, 1500, 1]]


def test_inspect_of_a_missing_queue_is_empty(mq: MQ, name: str) -> None:
    assert mq("MQ.INSPECT", name, 0, 1) == []
    assert mq("MQ.INSPECT", name, "PENDING", 0, 1) == []


def test_inspect_checks_its_arguments(mq: MQ, name: str) -> None:
    assert refused(mq, "MQ.INSPECT", name, 0, 0) == "count must be >= 1"
    assert refused(mq, "MQ.INSPECT", name, "PENDING", 0, 0) == "count must be >= 1"
    assert "start must be a whole number" in refused(mq, "MQ.INSPECT", name, "PENDINGS", 0)
    assert "not expected" in refused(mq, "MQ.INSPECT", name, 0, 1, 2)


def test_qinfo_tells_the_last_id_and_two_lengths(mq: MQ, name: str) -> None:
    assert mq("MQ.QINFO", name) is None
    ids = mq("MQ.PUSH", name, "a", "b", "c")
    mq("MQ.POP", 1, name)
    assert mq("MQ.QINFO", name) == [ids[2], 2, 1]


# ---- pipelines -------------------------------------------------------------------------------


def test_a_pipeline_is_answered_in_order_whatever_is_run_together(
    r: redis.Redis, name: str
) -> None:
    with r.pipeline(transaction=False) as pipe:
        for i in range(30):
            pipe.execute_command("MQ.PUSH", name, f"a{i}", f"b{i}")
            pipe.execute_command("MQ.PUSH", name, f"c{i}")
            pipe.execute_command("PING")
            pipe.execute_command("MQ.POP", 1, name)
            pipe.execute_command("MQ.POP", 1, name)
            pipe.execute_command("MQ.PUSH", f"{name}.other", "x")
        answers = pipe.execute()
    pushed = [i for at in range(0, 180, 6) for i in [*answers[at], *answers[at + 1]]]
    assert len(set(pushed)) == 90
    popped = [answers[at][0] for at in range(180) if at % 6 in (3, 4)]
    assert [i for i, _ in popped] == pushed[:60]
    assert [len(a) for a in answers[0::6]] == [2] * 30
    assert [len(a) for a in answers[1::6]] == [1] * 30
    assert answers[2::6] == [True] * 30


def test_whole_batches_acked_in_a_pipeline(r: redis.Redis, name: str) -> None:
    r.execute_command("MQ.PUSH", name, *map(str, range(50)))
    with r.pipeline(transaction=False) as pipe:
        for _ in range(6):
            pipe.execute_command("MQ.POP", 10, name)
        *batches, nothing = pipe.execute()
        assert nothing is None
        for batch in batches:
            pipe.execute_command("MQ.ACK", name, *[i for i, _ in batch])
        acked = pipe.execute()
        assert acked == [[i for i, _ in batch] for batch in batches]
        for batch in batches[:2]:
            pipe.execute_command("MQ.ACK", name, *[i for i, _ in batch])
        assert pipe.execute() == [[], []]


def test_a_refused_push_in_a_pipeline_is_that_one_only(r: redis.Redis, name: str) -> None:
    r.execute_command("MQ.CONFIGURE", name, "max_length", 3)
    with r.pipeline(transaction=False) as pipe:
        for bodies in ("ab", "cd", "e"):
            pipe.execute_command("MQ.PUSH", name, *bodies)
        first, second, third = pipe.execute(raise_on_error=False)
    assert len(first) == 2
    assert str(second).startswith("FULL ")
    assert len(third) == 1


# ---- shards ----------------------------------------------------------------------------------


def test_a_queue_of_several_shards_loses_and_doubles_nothing(mq: MQ, name: str) -> None:
    mq("MQ.CONFIGURE", name, "shards", 3)
    ids = [i for turn in range(20) for i in mq("MQ.PUSH", name, f"a{turn}", f"b{turn}")]
    got: list[Any] = []
    while more := mq("MQ.POP", 7, name):
        got += more
    assert sorted(i for i, _ in got) == sorted(ids)
    assert sorted(i for i, _ in mq("MQ.RECOVER", name, 100, 0)) == sorted(ids)
    assert sorted(mq("MQ.ACK", name, *ids)) == sorted(ids)
    assert mq("MQ.QINFO", name)[1:] == [0, 0]
