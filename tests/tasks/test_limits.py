"""Limits: what they count together and what apart, and what cannot be one."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import Concurrency, InvalidArgument, Rate
from holdfast.tasks.limits import Limit, of_call, of_queue


def names(limits: list[Limit], *args: Any, task: str = "send", **kwargs: Any) -> list[str]:
    return [need.name for need in of_call(task, limits, args, kwargs)]


def test_limits_of_tasks_and_queues_are_apart_whatever_their_names() -> None:
    limits: list[Limit] = [Rate(1), Concurrency(1), Rate(100, per=60)]
    all_names = [
        *names(limits),
        *names(limits, task="other"),
        *(need.name for need in of_queue("send", limits)),
        *names([Rate(1, name="send"), Rate(1, name="task/send/0"), Concurrency(1, name="send")]),
    ]
    assert len(set(all_names)) == len(all_names) == 12


def test_limits_of_one_name_are_one_if_they_are_of_one_kind() -> None:
    limits: list[Limit] = [Rate(1, name="mail"), Concurrency(1, name="mail")]
    assert names(limits) == names(limits, task="other")
    assert [need.name for need in of_queue("any", limits)] == names(limits)


def test_a_key_is_asked_with_the_arguments_and_keeps_calls_apart() -> None:
    by_user: list[Limit] = [Rate(1, key=lambda user, *, of="all": f"{user}/{of}")]
    assert names(by_user, "ann") == names(by_user, user="ann")
    assert (
        len({*names(by_user, "ann"), *names(by_user, "bob"), *names(by_user, "ann", of="x")}) == 3
    )


@pytest.mark.parametrize("key", [7, "", None, "x" * 201, "\n"])
def test_a_key_that_is_no_name_is_refused(key: Any) -> None:
    with pytest.raises(InvalidArgument, match="a limit key"):
        names([Rate(1, key=lambda: key)])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rate(0), "a limit must be from 1"),
        (lambda: Rate(1.5), "a limit must be a whole number"),  # type: ignore[arg-type]
        (lambda: Rate(1, per=0), "per must be from 0.001"),
        (lambda: Rate(1, key="user"), "must be a function"),  # type: ignore[arg-type]
        (lambda: Concurrency(-1), "a limit must be from 1"),
        (lambda: Concurrency(1, name=""), "a limit's name must have"),
        (lambda: holdfast.App().task(limits=[3]), "neither Rate nor Concurrency"),  # type: ignore[list-item]
        (lambda: holdfast.App().queue("q", limits=[Rate(1, key=str)]), "without keys"),
        (lambda: holdfast.App().queue("q", limits=[3]), "Rate and Concurrency"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_limit_is_refused_where_it_is_written(make: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        make()
