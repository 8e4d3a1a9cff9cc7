from __future__ import annotations

import threading

import pytest

from holdfast import InvalidArgument, Queue
from holdfast.engine import tasks
from holdfast.engine.keys import result_key
from tests.clock import Clock
from tests.engine.look import drain
from tests.engine.settling import result_ends_in, result_of, settle
from tests.raw import Raw
from tests.servers import wait_until


def keep(q: Queue, tail: str, result: bytes, ttl: float = 60) -> int:
    return q.transport.run(tasks.keep(q.refs()[0], tail, result, ttl))


def test_a_result_is_kept_and_ends_by_itself(q: Queue, raw: Raw) -> None:
    assert keep(q, "1-1", b'"done"', 60) == 1
    assert result_of(q, "1-1") == "done"
    assert 50_000 < result_ends_in(q, "1-1") <= 60_000
    keep(q, "1-2", b"1", 0.05)
    wait_until(lambda: result_of(q, "1-2") is None, what="the result to end")


def test_a_later_one_takes_the_place_of_an_earlier(q: Queue) -> None:
    for n in range(3):
        keep(q, "1-1", b"%d" % n, 60 + n * 60)
    assert result_of(q, "1-1") == 2
    assert result_ends_in(q, "1-1") > 120_000


def test_what_is_none_of_ours_gives_way(q: Queue, raw: Raw) -> None:
    raw("SET", result_key(q.refs()[0], "1-1"), "something else")
    keep(q, "1-1", b"1")
    assert result_of(q, "1-1") == 1


def test_it_makes_no_queue_of_what_is_none(q: Queue, raw: Raw) -> None:
    before = raw.keys(q)
    keep(q, "1-1", b"1")
    assert raw.keys(q) == before


@pytest.mark.parametrize("how", ["keep", "settle"])
def test_all_who_wait_are_answered_and_the_result_stays(q: Queue, clock: Clock, how: str) -> None:
    q.send(b"x", group="home")
    [held] = drain(q)
    ref = q.refs()[held.shard]
    where = result_key(ref, "t")
    answers: list[object] = []
    hf = q._client

    def wait() -> None:
        answers.append(
            hf.transport.command("BLMOVE", where, where, "LEFT", "LEFT", 10, key=ref.key)
        )

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    if how == "keep":
        q.transport.run(tasks.keep(ref, "t", b"7", 60))
    else:
        settle(q, (held, {"result_tail": "t", "result": b"7", "result_ttl_ms": 60_000}))
    for thread in waiting:
        thread.join(20)
    assert answers == [b"7"] * 3
    assert result_of(q, "t", held.shard) == 7
    assert 50_000 < result_ends_in(q, "t", held.shard) <= 60_000


@pytest.mark.parametrize("ttl", [0, -1])
def test_a_result_must_last(q: Queue, ttl: float) -> None:
    with pytest.raises(InvalidArgument, match=r"ttl must be from 0\.001"):
        keep(q, "1-1", b"1", ttl)


def test_a_result_needs_a_name(q: Queue) -> None:
    with pytest.raises(InvalidArgument, match="needs a name"):
        keep(q, "", b"1")
