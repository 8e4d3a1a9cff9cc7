"""When those that a limit turned away come back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from holdfast import Concurrency, Rate
from holdfast.worker.turns import FURTHEST, Turns


def turns_at_noon() -> Turns:
    """No time passes here, however long the test takes."""
    return Turns(lambda: 43_200.0)


def test_those_turned_away_by_a_rate_come_back_as_fast_as_it_lets_them_in() -> None:
    turns, rate = turns_at_noon(), Rate(10)
    waits = [turns.give("r", rate, 0.07) for _ in range(20)]
    assert waits[0] == pytest.approx(0.07)
    assert all(b - a == pytest.approx(0.1) for a, b in pairwise(waits))


def test_those_turned_away_by_concurrency_come_back_twice_as_fast_as_places_fall_free() -> None:
    turns, limit = turns_at_noon(), Concurrency(5)
    turns.took(limit, 1.0)
    waits = [turns.give("c", limit, 30) for _ in range(20)]
    assert 0.1 <= waits[0] <= 0.3
    assert waits[-1] - waits[0] == pytest.approx(19 * 0.1)


def test_each_name_has_turns_of_its_own() -> None:
    turns, rate = turns_at_noon(), Rate(1)
    assert turns.give("ann", rate, 0.5) == turns.give("bob", rate, 0.5)


def test_once_it_is_open_turns_begin_anew() -> None:
    turns, rate = turns_at_noon(), Rate(1)
    for _ in range(5):
        turns.give("r", rate, 0.5)
    turns.open("r")
    assert turns.give("r", rate, 0.5) == 0.5


def test_no_turn_is_further_away_than_it_may_be_and_those_are_spread() -> None:
    turns, rate = turns_at_noon(), Rate(1, per=3600)
    waits = [turns.give("r", rate, 1800) for _ in range(50)]
    assert all(FURTHEST / 2 <= wait <= FURTHEST for wait in waits)
    assert max(waits) - min(waits) > FURTHEST / 4


def test_what_is_over_is_forgotten() -> None:
    turns, rate = turns_at_noon(), Rate(1_000_000)
    for n in range(30_000):
        turns.give(f"key {n}", rate, 0.0)
    assert len(turns._next) < 20_100
