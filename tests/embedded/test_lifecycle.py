from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from holdfast import embedded
from holdfast.embedded import locks, record, server
from holdfast.embedded.folder import Folder
from holdfast.embedded.membership import url_of
from holdfast.embedded.record import Record
from tests.embedded.people import (
    User,
    answers,
    ask,
    edit_record,
    keeper_pid,
    kill_9,
    processes_of,
    running,
    server_pid,
    stays_true,
    wait_until_gone,
)
from tests.servers import wait_until


@pytest.mark.slow
def test_up_stays_although_nobody_uses_it_until_down(home: Path) -> None:
    status = embedded.up(home)
    assert status.running
    assert status.pinned
    assert status.url is not None
    url = status.url
    assert stays_true(lambda: answers(url), 0.3)
    ask(url, "SET", "k", "v")
    assert embedded.down(home)
    assert processes_of(home) == []
    with embedded.join(home) as membership:
        assert ask(membership.url, "GET", "k") == "v"


def test_up_twice_is_up_once(home: Path) -> None:
    first = embedded.up(home)
    assert embedded.up(home).pid == first.pid
    assert embedded.down(home)
    assert not embedded.down(home)


@pytest.mark.slow
def test_up_pins_a_server_that_others_started(home: Path) -> None:
    with User(home) as user:
        url = user.joined()
        embedded.up(home)
        user.leave()
    assert stays_true(lambda: answers(url), 0.3)
    assert embedded.down(home)


@pytest.mark.slow
def test_a_pin_ends_with_the_run_it_was_given_to(home: Path) -> None:
    embedded.up(home)
    kill_9(keeper_pid(home))
    with embedded.join(home):
        assert not embedded.status(home).pinned
    wait_until_gone(home)


@pytest.mark.slow
def test_down_stops_a_server_in_use_and_later_users_start_it_again(home: Path) -> None:
    with User(home) as user:
        ask(user.joined(), "SET", "k", "v")
        assert embedded.down(home)
        assert processes_of(home) == []
        with embedded.join(home) as membership:
            assert ask(membership.url, "GET", "k") == "v"


def test_down_answers_no_when_nothing_runs_and_creates_nothing(home: Path) -> None:
    assert not embedded.down(home)
    assert not home.exists()
    with embedded.join(home):
        pass
    wait_until_gone(home)
    assert not embedded.down(home)


@pytest.mark.slow
def test_down_does_not_touch_the_stranger_that_a_stale_record_names(home: Path) -> None:
    with embedded.join(home):
        pass
    wait_until_gone(home)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        edit_record(home, state="ready", keeper_pid=stranger.pid, server_pid=stranger.pid)
        assert not embedded.status(home).running
        assert not embedded.down(home)
        assert stranger.poll() is None
        # Nor while another keeper is at work and the record is wrong about it.
        with embedded.join(home):
            edit_record(home, keeper_pid=stranger.pid, server_pid=stranger.pid)
            assert embedded.down(home)
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")


@pytest.mark.slow
def test_a_wish_to_stop_an_earlier_run_does_not_stop_this_one(home: Path) -> None:
    with embedded.join(home):
        assert embedded.down(home)
    assert (home / "stop").exists()
    with embedded.join(home) as membership:
        assert stays_true(lambda: answers(membership.url), 0.3)


@pytest.mark.slow
def test_down_ends_a_server_whose_keeper_is_gone(home: Path) -> None:
    orphan = orphan_server(home)
    try:
        assert embedded.down(home)
        assert orphan.wait(5) == 0
    finally:
        server.stop(orphan)


@pytest.mark.slow
def test_join_ends_a_server_whose_keeper_is_gone_and_keeps_its_data(home: Path) -> None:
    orphan = orphan_server(home)
    try:
        ask(url_of(str(Folder(home).socket())), "SET", "k", "v")
        with embedded.join(home) as membership:
            assert orphan.wait(5) == 0
            assert running(home).server_pid != orphan.pid
            assert ask(membership.url, "GET", "k") == "v"
    finally:
        server.stop(orphan)


def orphan_server(home: Path) -> subprocess.Popen[bytes]:
    """A server as a killed keeper leaves it where the kernel does not end it: macOS."""
    folder = Folder(home)
    folder.create()
    lock = locks.open_lock(folder.server_lock)
    assert locks.try_lock(lock)
    settings = {**server.options(home, "durable"), "port": 0, "unixsocket": folder.socket()}
    process = server.spawn(
        embedded.binary(), settings, folder.log, keep_open=[lock], die_with_parent=False
    )
    os.close(lock)
    record.write(folder, Record("gone", "ready", "durable", str(folder.socket()), 1, process.pid))
    wait_until(lambda: server.ping(folder.socket()) == "ready", 5, "the orphan answers")
    return process


def test_sigterm_to_the_keeper_is_an_orderly_down(home: Path) -> None:
    with embedded.join(home):
        os.kill(keeper_pid(home), signal.SIGTERM)
        wait_until_gone(home)
        assert embedded.status(home).state == "stopped"


def test_a_server_told_to_shut_down_by_a_client_stays_down(home: Path) -> None:
    with embedded.join(home) as membership:
        with redis.Redis.from_url(membership.url) as client:
            client.shutdown(nosave=True)
        wait_until_gone(home)
        assert embedded.status(home).state == "stopped"


def test_removing_the_folder_ends_even_a_pinned_server_in_use(home: Path) -> None:
    embedded.up(home)
    with embedded.join(home):
        shutil.rmtree(home)
        wait_until_gone(home)


@pytest.mark.slow
def test_a_removed_folder_does_not_harm_the_server_of_the_next_one(home: Path) -> None:
    embedded.up(home)
    old = set(processes_of(home))
    shutil.rmtree(home)
    with embedded.join(home) as membership:
        wait_until(lambda: not old & set(processes_of(home)), 5, "the old ones gone")
        assert membership.socket.exists()
        assert answers(membership.url)


def test_status_tells_what_runs(home: Path) -> None:
    with embedded.join(home, "fast") as membership:
        status = embedded.status(home)
        assert status == embedded.Status(
            home=home,
            running=True,
            state="ready",
            pinned=False,
            pid=server_pid(home),
            url=membership.url,
            durability="fast",
            bytes_on_disk=status.bytes_on_disk,
        )
        before = status.bytes_on_disk
        ask(membership.url, "SET", "k", "v" * 10_000)
        assert embedded.status(home).bytes_on_disk >= before + 10_000


def test_status_names_no_server_that_is_gone(home: Path) -> None:
    embedded.up(home)
    embedded.down(home)
    for how in ("stopped", "ready"):  # and as a killed keeper leaves it
        edit_record(home, state=how, server_pid=1)
        status = embedded.status(home)
        assert (status.running, status.pinned) == (False, False)
        assert (status.pid, status.url, status.durability) == (None, None, None)
        assert status.state == {"stopped": "stopped", "ready": "killed"}[how]


def test_status_of_a_folder_that_is_not_there_creates_nothing(home: Path) -> None:
    status = embedded.status(home)
    assert (status.running, status.state, status.bytes_on_disk) == (False, "stopped", 0)
    assert (status.pid, status.url, status.durability) == (None, None, None)
    assert not home.exists()
