"""Limits that workers share. They go by the server's own clock: tests compare, and never measure time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, InvalidArgument
from holdfast.engine import tasks
from holdfast.engine.keys import LimitRef
from holdfast.engine.tasks import Permit
from tests.raw import Raw
from tests.servers import wait_until

_numbers = itertools.count(1)
LONG = 3600


class Limit:
    def __init__(self, hf: Client, name: str) -> None:
        self.ref = LimitRef(name)
        self._run = hf.transport.run

    def rate(self, limit: int, per: float, want: int = 1) -> Permit:
        return self._run(tasks.permit_rate(self.ref, limit, per, want))

    def unused(self, limit: int, per: float, count: int) -> Permit:
        return self._run(tasks.unpermit_rate(self.ref, limit, per, count))

    def hold(self, limit: int, *holders: str, hold: float = LONG) -> Permit:
        return self._run(tasks.permit_concurrency(self.ref, limit, hold, holders))

    def free(self, *holders: str) -> int:
        return self._run(tasks.unpermit(self.ref, holders))


@pytest.fixture
def limit(hf: Client) -> Limit:
    return Limit(hf, f"limit {{{next(_numbers)}}}")


# ---- rate --------------------------------------------------------------------------------------


def test_a_full_bucket_gives_its_limit_at_once_and_then_no_more(limit: Limit) -> None:
    granted = [limit.rate(5, LONG).granted for _ in range(8)]
    assert granted == [1, 1, 1, 1, 1, 0, 0, 0]


def test_as_many_as_there_are_of_those_asked_for(limit: Limit) -> None:
    assert limit.rate(10, LONG, want=7).granted == 7
    assert limit.rate(10, LONG, want=7).granted == 3
    assert limit.rate(10, LONG, want=7).granted == 0


@pytest.mark.parametrize("n", [1, 3, 7, 11, 300, 999])
def test_the_whole_limit_can_be_had_one_by_one(limit: Limit, n: int) -> None:
    """Also where the time of one is no whole number of µs."""
    assert [limit.rate(n, LONG).granted for _ in range(n)] == [1] * n
    assert limit.rate(n, LONG).granted == 0


@pytest.mark.parametrize("n", [31, 97, 99, 1000])
def test_the_whole_limit_can_be_had_at_once(limit: Limit, n: int) -> None:
    """Also where n times the time of one is a little less than the whole, as numbers are."""
    assert limit.rate(n, LONG, want=n + 1).granted == n


def test_the_wait_is_that_for_one_more(limit: Limit) -> None:
    assert limit.rate(2, LONG).wait_ms == 0
    second = limit.rate(2, LONG)
    assert second.granted == 1
    assert LONG * 500 - 60_000 < second.wait_ms <= LONG * 500
    assert limit.rate(2, LONG).wait_ms <= second.wait_ms


def test_after_the_wait_one_more_is_granted(limit: Limit) -> None:
    assert limit.rate(10, 1, want=10).granted == 10
    said = limit.rate(10, 1)
    while said.granted == 0:
        assert 0 < said.wait_ms <= 100
        time.sleep(said.wait_ms / 1000)
        before, said = said, limit.rate(10, 1)
        assert said.granted == 1 or said.wait_ms < before.wait_ms


@pytest.mark.slow
def test_over_time_no_more_than_the_rate_and_nearly_as_much(limit: Limit) -> None:
    n, per, start, granted = 50, 0.1, time.monotonic(), 0
    while time.monotonic() - start < 0.5:
        granted += limit.rate(n, per, want=100).granted
    took = time.monotonic() - start
    assert granted <= n * (1 + took / per) + 1
    assert granted >= n * 2


def test_the_limit_may_change_from_call_to_call(limit: Limit) -> None:
    assert limit.rate(100, LONG, want=100).granted == 100
    assert limit.rate(100, 0.001, want=1).wait_ms <= 1  # a bucket never lacks more than it holds
    wait_until(lambda: limit.rate(100, 0.001).granted == 1, what="the shorter time to pass")


def test_a_clock_that_was_set_back_does_not_block_for_longer_than_the_limit_says(
    limit: Limit, raw: Raw
) -> None:
    far = (int(time.time()) + 10 * LONG) * 1_000_000
    raw("SET", limit.ref.below("rate"), f"{far}.000")
    said = limit.rate(10, 0.1)
    assert said.granted == 0
    assert 0 < said.wait_ms <= 10
    wait_until(lambda: limit.rate(10, 0.1).granted == 1, what="the clock to count")


def test_what_says_nothing_any_more_is_gone(limit: Limit, raw: Raw) -> None:
    limit.rate(10, LONG)
    assert 0 < raw("PTTL", limit.ref.below("rate")) <= LONG * 100
    limit.rate(10, LONG, want=9)
    assert LONG * 990 < raw("PTTL", limit.ref.below("rate")) <= LONG * 1000


def test_what_was_of_no_use_can_be_had_by_others(limit: Limit) -> None:
    assert limit.rate(10, LONG, want=8).granted == 8
    limit.unused(10, LONG, 5)
    assert limit.rate(10, LONG, want=10).granted == 7
    assert limit.rate(10, LONG).granted == 0


def test_nothing_can_be_given_back_that_makes_a_bucket_fuller_than_full(limit: Limit) -> None:
    assert limit.rate(10, LONG, want=2).granted == 2
    limit.unused(10, LONG, 100)
    limit.unused(10, LONG, 100)
    assert limit.rate(10, LONG, want=100).granted == 10
    assert limit.rate(10, LONG).granted == 0


def test_limits_of_other_names_are_apart(hf: Client, limit: Limit) -> None:
    other = Limit(hf, limit.ref.name + "#")
    assert limit.rate(1, LONG).granted == 1
    assert other.rate(1, LONG).granted == 1
    assert limit.rate(1, LONG).granted == 0


# ---- concurrency -------------------------------------------------------------------------------


def test_no_more_than_the_limit_hold_it_at_once(limit: Limit) -> None:
    assert limit.hold(2, "a") == Permit(1, 0)
    assert limit.hold(2, "b").granted == 1
    said = limit.hold(2, "c")
    assert (said.granted, said.refused) == (0, (0,))
    assert LONG * 900 < said.wait_ms <= LONG * 1000
    assert limit.free("a") == 1
    assert limit.hold(2, "c").granted == 1


def test_who_holds_it_is_granted_again(limit: Limit) -> None:
    limit.hold(1, "a")
    assert [limit.hold(1, "a").granted for _ in range(3)] == [1, 1, 1]
    assert limit.hold(1, "b").granted == 0


def test_the_same_call_is_the_heartbeat(limit: Limit, raw: Raw) -> None:
    limit.hold(1, "a", hold=1)
    before = float(raw("ZSCORE", limit.ref.below("permits"), "a"))
    limit.hold(1, "a", hold=LONG)
    assert float(raw("ZSCORE", limit.ref.below("permits"), "a")) > before + LONG * 900


def test_of_several_the_first_get_what_is_free_and_it_is_told_who_did_not(limit: Limit) -> None:
    said = limit.hold(3, "a", "b", "c", "d", "e")
    assert (said.granted, said.refused) == (3, (3, 4))
    said = limit.hold(3, "x", "b", "y", "c")
    assert (said.granted, said.refused) == (2, (0, 2))


def test_who_holds_it_comes_before_who_would_like_to(limit: Limit) -> None:
    limit.hold(2, "a", "b")
    limit.free("a")
    said = limit.hold(2, "new", "other", "b")
    assert (said.granted, said.refused) == (2, (1,))


def test_one_name_given_twice_holds_one_place(limit: Limit) -> None:
    assert limit.hold(2, "a", "a").granted == 2
    assert limit.hold(2, "b").granted == 1


def test_a_place_is_free_when_nobody_was_heard_of(limit: Limit, raw: Raw) -> None:
    limit.hold(1, "a", hold=0.05)
    said = limit.hold(1, "b")
    if not said.granted:
        assert 0 < said.wait_ms <= 50
    wait_until(lambda: limit.hold(1, "b").granted == 1, what="the place to be free")
    assert limit.hold(1, "a").refused == (0,)


def test_a_place_is_free_when_its_holder_was_not_heard_of_though_another_was(limit: Limit) -> None:
    limit.hold(2, "a", hold=LONG)
    limit.hold(2, "b", hold=0.05)
    wait_until(lambda: limit.hold(2, "c").granted == 1, what="the place of b to be free")
    assert limit.hold(2, "b", "a").refused == (0,)


def test_who_holds_it_takes_no_place_of_those_that_are_free(limit: Limit) -> None:
    limit.hold(3, "a")
    assert limit.hold(3, "a", "b", "c").granted == 3


def test_a_lowered_limit_takes_no_place_away_and_gives_none(limit: Limit) -> None:
    limit.hold(5, "a", "b", "c")
    assert limit.hold(1, "a", "b", "c").granted == 3
    assert limit.hold(1, "d").granted == 0
    limit.free("a", "b")
    assert limit.hold(1, "d").granted == 0
    limit.free("c")
    assert limit.hold(1, "d").granted == 1


def test_only_those_who_hold_it_can_give_it_back(limit: Limit) -> None:
    limit.hold(2, "a", "b")
    assert limit.free("b", "c") == 1
    assert limit.free("b") == 0
    assert limit.hold(2, "x", "y").granted == 1


def test_places_vanish_by_themselves_with_the_last_of_them(limit: Limit, raw: Raw) -> None:
    limit.hold(3, "a", hold=100)
    limit.hold(3, "b", hold=10)
    assert 90_000 < raw("PTTL", limit.ref.below("permits")) <= 100_000
    limit.free("a", "b")
    assert not raw("EXISTS", limit.ref.below("permits"))


def test_rate_and_concurrency_of_one_name_do_not_meet(limit: Limit) -> None:
    assert limit.rate(1, LONG).granted == 1
    assert limit.hold(1, "a").granted == 1


# ---- what cannot be ----------------------------------------------------------------------------

Wrong = Callable[[Limit], Any]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: m.rate(0, 1), "limit must be from 1 to 1000000"),
        (lambda m: m.rate(1, 0), "per must be from 0.001"),
        (lambda m: m.rate(1, 1, want=0), "want must be from 1"),
        (lambda m: m.unused(1, 1, 0), "unused must be from 1"),
        (lambda m: m.hold(0, "a"), "limit must be from 1 to 1000000"),
        (lambda m: m.hold(1, "a", hold=0), "hold must be from 0.001"),
        (lambda m: m.hold(1), "give 1 to 1000 holders, not 0"),
        (lambda m: m.hold(1, *["a"] * 1001), "give 1 to 1000 holders, not 1001"),
        (lambda m: m.hold(1, ""), "a holder must have 1 to 200"),
        (lambda m: m.free(), "give 1 to 1000 holders, not 0"),
    ],
)
def test_what_cannot_be_is_refused(limit: Limit, call: Wrong, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        call(limit)
