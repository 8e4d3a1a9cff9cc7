"""kill -9 of a consumer with messages in hand: they come back when the lease ends, counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Client, Queue
from tests.servers import standalone_server

pytestmark = pytest.mark.slow

CONSUMER = """
import sys, holdfast
with holdfast.connect(sys.argv[1]) as hf:
    how = sys.argv[2]
    if how == "receive":
        held = hf.queue("q").receive_many(10, lease=1)
        print(len(held), flush=True)
        sys.stdin.read()
    for d in hf.queue("q").consume(prefetch=10, lease=1):
        print(10, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Client]:
    with standalone_server(tmp_path) as server, holdfast.connect(server.url) as client:
        yield client


def kill_a_consumer_in_mid_work(q: Queue, url: str, how: str) -> None:
    consumer = subprocess.Popen(
        [sys.executable, "-c", CONSUMER, url, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert consumer.stdout is not None
    assert consumer.stdin is not None
    assert consumer.stdout.readline() == "10\n"
    assert q.stats().leased == 10
    consumer.kill()
    consumer.wait()
    consumer.stdin.close()
    consumer.stdout.close()


@pytest.mark.parametrize("how", ["receive", "consume"])
def test_what_a_killed_consumer_held_comes_back_in_order(hf: Client, how: str) -> None:
    q = hf.queue("q")
    ids = q.send_many([b"%d" % i for i in range(15)])
    kill_a_consumer_in_mid_work(q, hf.url, how)
    rest = q.receive_many(5)
    assert [d.id for d in rest] == ids[10:]
    again = q.receive_many(10, wait=20)
    assert [d.id for d in again] == ids[:10]
    assert {d.receives for d in again} == {2}


def test_a_message_that_kills_every_consumer_ends_among_the_dead(hf: Client) -> None:
    q = hf.queue("q")
    q.configure(max_receives=2, lease=1)
    q.send_many([b"%d" % i for i in range(10)])
    kill_a_consumer_in_mid_work(q, hf.url, "receive")
    q.release_many(q.receive_many(10, wait=20))
    kill_a_consumer_in_mid_work(q, hf.url, "receive")
    dead = q.receive_dead(10, wait=20)
    assert len(dead) == 10
    assert dead[0].death is not None
    assert dead[0].death.reason == "max_receives"
    assert dead[0].death.error == "the lease ended without an ack"
