"""kill -9 of each who can be killed: nothing stays locked, nothing is lost, nothing is left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.embedded import locks
from holdfast.embedded.folder import Folder
from holdfast.errors import Unavailable
from tests.embedded.people import (
    User,
    answers,
    ask,
    keeper_pid,
    kill_9,
    running,
    server_pid,
    wait_until_gone,
)
from tests.servers import wait_until


@pytest.mark.slow
def test_the_server_ends_when_its_last_user_was_killed(home: Path) -> None:
    with User(home) as first, User(home) as second:
        url = first.joined()
        second.joined()
        first.kill()
        assert answers(url)
        socket = Path(running(home).socket)
        second.kill()
    wait_until_gone(home)
    assert not socket.exists()


@pytest.mark.slow
def test_data_is_there_again_after_every_user_was_killed(home: Path) -> None:
    with User(home) as user:
        ask(user.joined(), "SET", "k", "v")
        user.kill()
    with embedded.join(home) as membership:
        assert ask(membership.url, "GET", "k") == "v"


@pytest.mark.slow
def test_a_killed_server_comes_back_for_its_users_with_its_data(home: Path) -> None:
    with embedded.join(home) as membership:
        for number in range(100):
            ask(membership.url, "SET", number, number)
        before = server_pid(home)
        kill_9(before)
        wait_until(lambda: answers(membership.url), 5, "the server is back")
        assert server_pid(home) != before
        assert ask(membership.url, "DBSIZE") == 100


def test_who_joins_just_after_the_server_was_killed_gets_the_next_one(home: Path) -> None:
    with embedded.join(home) as first:
        ask(first.url, "SET", "k", "v")
        kill_9(server_pid(home))
        with embedded.join(home) as second:
            assert ask(second.url, "GET", "k") == "v"


@pytest.mark.slow
def test_a_server_that_keeps_dying_is_given_up(home: Path) -> None:
    with embedded.join(home) as membership:
        for _ in range(5):
            kill_9(server_pid(home))
            wait_until(lambda: answers(membership.url), 5, "the server is back")
            wait_until(lambda: running(home).state == "ready", 5, "its keeper has seen that")
        kill_9(server_pid(home))
        wait_until_gone(home)
        assert embedded.status(home).state == "failed"
        assert not membership.socket.exists()
        membership.revive()  # by hand it may be tried again
        assert answers(membership.url)


@pytest.mark.slow
def test_a_killed_keeper_takes_the_server_along_and_the_next_user_finds_the_data(
    home: Path,
) -> None:
    with User(home) as user:
        ask(user.joined(), "SET", "k", "v")
        kill_9(keeper_pid(home))
        wait_until_gone(home)
        assert embedded.status(home).state == "killed"
        with embedded.join(home) as membership:
            assert ask(membership.url, "GET", "k") == "v"


@pytest.mark.slow
def test_a_user_whose_keeper_was_killed_can_revive_the_server(home: Path) -> None:
    with embedded.join(home) as membership:
        ask(membership.url, "SET", "k", "v")
        url = membership.url
        kill_9(keeper_pid(home))
        membership.revive()  # at once: the old server may still be dying
        assert membership.url == url
        assert ask(url, "GET", "k") == "v"
        assert running(home).state == "ready"


def test_reviving_does_not_undo_down(home: Path) -> None:
    with embedded.join(home) as membership:
        assert embedded.down(home)
        with pytest.raises(Unavailable, match="holdfast up"):
            membership.revive()


def test_reviving_a_server_that_runs_changes_nothing(home: Path) -> None:
    with embedded.join(home) as membership:
        before = running(home)
        membership.revive()
        assert running(home) == before


@pytest.mark.slow
def test_keeper_and_server_killed_together_leave_nothing_locked(home: Path) -> None:
    with embedded.join(home) as membership:
        ask(membership.url, "SET", "k", "v")
        keeper, server = keeper_pid(home), server_pid(home)
        kill_9(keeper)
        with suppress(ProcessLookupError):  # its keeper may have taken it along by now
            kill_9(server)
    with embedded.join(home) as membership:
        assert ask(membership.url, "GET", "k") == "v"


def test_a_user_killed_while_it_starts_the_server_leaves_a_folder_that_others_can_join(
    home: Path,
) -> None:
    with User(home) as user:
        wait_until(lambda: locks.is_held(Folder(home).keeper_lock), 5, "a start under way")
        user.kill()
    with embedded.join(home) as membership:
        assert answers(membership.url)
