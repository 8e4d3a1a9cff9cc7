from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.errors import InvalidArgument
from tests.embedded.people import ask, wait_until_gone


@pytest.mark.parametrize(
    ("asked", "runs", "fsync"),
    [(None, "durable", "always"), ("durable", "durable", "always"), ("fast", "fast", "everysec")],
)
def test_the_durability_asked_for_is_what_the_server_does(
    home: Path, asked: str | None, runs: str, fsync: str
) -> None:
    with embedded.join(home, asked) as membership:
        assert membership.durability == runs
        assert ask(membership.url, "CONFIG GET", "appendfsync") == {"appendfsync": fsync}


@pytest.mark.parametrize(("first", "second"), [("fast", "durable"), ("durable", "fast")])
def test_asking_for_another_durability_than_runs_says_how_to_change_it(
    home: Path, first: str, second: str
) -> None:
    with embedded.join(home, first):
        with pytest.raises(InvalidArgument, match=rf"'{first}', not '{second}'.*holdfast down"):
            embedded.join(home, second)
        with embedded.join(home) as whatever:
            assert whatever.durability == first
    wait_until_gone(home)  # who was refused does not hold it


@pytest.mark.slow
def test_after_down_another_durability_can_be_had_with_the_same_data(home: Path) -> None:
    with embedded.join(home, "fast") as membership:
        ask(membership.url, "SET", "k", "v")
        embedded.down(home)
        with embedded.join(home, "durable") as safer:
            assert ask(safer.url, "CONFIG GET", "appendfsync") == {"appendfsync": "always"}
            assert ask(safer.url, "GET", "k") == "v"


def test_an_unknown_word_is_refused_before_anything_is_created(home: Path) -> None:
    with pytest.raises(InvalidArgument, match="'durable' or 'fast', not 'slow'"):
        embedded.join(home, "slow")
    assert not home.exists()
