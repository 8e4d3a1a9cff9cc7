"""A server's disk and clock in the hands of a test."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tools.torture import shims
from tools.torture.node import wait_until
from tools.torture.servers import Single

pytestmark = pytest.mark.skipif(shims.compiler() is None, reason="no C compiler")


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Callable[..., Single]]:
    made: list[Single] = []

    def make(durability: str, shim: str) -> Single:
        made.append(Single(tmp_path, durability, shim))
        return made[-1]

    yield make
    for servers in made:
        servers.close()


def write_and_cut_the_power(servers: Single, durability: str) -> bytes | None:
    """What is left of a value that the server had confirmed."""
    assert servers.disk is not None
    with servers.node.connect() as client:
        client.config_set("appendfsync", durability)
        client.set("k", b"v" * 10_000)
    servers.node.kill()
    servers.disk.cut_power(servers.node.folder, random.Random(1))
    servers.node.start()
    found = servers.node.ask("GET", "k")
    assert found is None or isinstance(found, bytes)
    return found


def test_a_power_cut_takes_what_was_not_synced(single: Callable[..., Single]) -> None:
    servers = single("durable", "disk")
    assert write_and_cut_the_power(servers, "no") is None


def test_a_power_cut_leaves_what_was_synced(single: Callable[..., Single]) -> None:
    servers = single("durable", "disk")
    assert write_and_cut_the_power(servers, "always") == b"v" * 10_000


def test_a_server_on_a_full_disk_refuses_until_there_is_room(single: Callable[..., Single]) -> None:
    servers = single("fast", "disk")
    assert servers.disk is not None
    servers.disk.fill()

    def refuses() -> bool:
        try:
            servers.node.ask("SET", "k", "v")
        except redis.ResponseError as error:
            return "MISCONF" in str(error)
        return False

    wait_until(refuses, 10, "the server has noticed")
    servers.disk.make_room()
    wait_until(lambda: not refuses(), 10, "the server writes again")


def test_the_clock_of_a_server_steps_and_ours_does_not(single: Callable[..., Single]) -> None:
    servers = single("fast", "clock")
    assert servers.clock is not None
    for offset in (3600.0, -3600.0, 0.0):
        servers.clock.set(offset)
        assert servers.offset == offset
        seconds, _ = servers.node.ask("TIME")
        assert abs(int(seconds) - time.time() - offset) < 2
