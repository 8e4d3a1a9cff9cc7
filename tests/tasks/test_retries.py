"""How often and when: the policy alone."""

from __future__ import annotations

import pytest

from holdfast import Retries
from holdfast.errors import InvalidArgument


def test_delays_double_up_to_a_cap_and_end() -> None:
    policy = Retries(6, first=1, most=10, jitter=0)
    assert [policy.delay_ms(n) for n in range(1, 8)] == [
        1000,
        2000,
        4000,
        8000,
        10_000,
        10_000,
        None,
    ]


def test_jitter_shortens_by_no_more_than_its_share() -> None:
    policy = Retries(1, first=8, jitter=0.25)
    drawn = {policy.delay_ms(1) for _ in range(200)}
    assert len(drawn) > 10
    assert all(delay is not None and 6000 <= delay <= 8000 for delay in drawn)


def test_the_closest_class_has_its_policy() -> None:
    policy = Retries(
        5, on={OSError: 2, ConnectionError: Retries(20, first=0.1, jitter=0), ValueError: 0}
    )
    assert policy.for_(ConnectionResetError).times == 20
    assert policy.for_(FileNotFoundError).times == 2
    assert policy.for_(KeyError).times == 5
    assert policy.for_(ValueError).delay_ms(1) is None
    assert policy.for_(ConnectionResetError).delay_ms(1) == 100


@pytest.mark.parametrize("wrong", [{"times": -1}, {"jitter": 2}, {"first": "1"}, {"on": {"x": 1}}])
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        Retries(**wrong)  # type: ignore[arg-type]
