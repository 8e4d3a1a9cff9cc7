"""Calls that a cluster sends elsewhere: followed, and never for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

import holdfast
from holdfast import Unavailable
from holdfast.engine import library
from tests.client.fake import Answer, Fake, bulk, fake
from tests.servers import Server, cluster_nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with cluster_nodes(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def url_of(nodes: list[Server]) -> str:
    return "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def owner(nodes: list[Server], slot: int) -> tuple[Server, Server]:
    """The node that serves a slot, and another one."""
    for node in nodes:
        me = node.raw("CLUSTER MYID")
        for first, last, primary, *_ in node.raw("CLUSTER", "SLOTS"):
            if first <= slot <= last and primary[2] == me:
                return node, next(other for other in nodes if other is not node)
    raise AssertionError(f"nobody serves slot {slot}")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["send", "command"])
def test_a_migration_left_half_way_ends_in_unavailable_and_not_in_a_hot_loop(
    nodes: list[Server], what: str
) -> None:
    """The source says ASK there, the target says MOVED back."""
    name = f"loop-{what}"
    slot = key_slot(f"hf1:{{{name}}}".encode())
    source, target = owner(nodes, slot)
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER MYID"))
    with holdfast.connect(url_of(nodes), retry_for=1, check="off") as hf:
        hf.ping()
        before, began = source.info("stats")["total_commands_processed"], time.monotonic()
        with pytest.raises(Unavailable, match="for 1 s: "):
            if what == "send":
                hf.queue(name).send(b"x")
            else:
                hf.transport.command("LLEN", f"hf1:{{{name}}}", key=f"hf1:{{{name}}}")
        assert time.monotonic() - began < 5
        assert source.info("stats")["total_commands_processed"] - before < 200
    source.ask("CLUSTER", "SETSLOT", slot, "STABLE")


@pytest.mark.slow
def test_a_plain_command_follows_a_key_that_has_gone_ahead(nodes: list[Server]) -> None:
    key = "hf1:{ahead}"
    slot = key_slot(key.encode())
    source, target = owner(nodes, slot)
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER MYID"))
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER MYID"))
    with holdfast.connect(url_of(nodes), retry_for=0.5, check="off") as hf:
        assert hf.transport.command("SADD", key, "x", key=key) == 1
    for node in (target, source, *nodes):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER MYID"))
    assert target.ask("SMEMBERS", key) == {"x"}


def no_functions_ever(words: list[bytes]) -> bytes:
    return b"-ERR Function not found\r\n" if words[0] == b"FCALL" else b"+OK\r\n"


def go_to(port: list[int]) -> Answer:
    def answer(words: list[bytes]) -> bytes:
        if words[:2] == [b"FCALL", b"hf1_version"]:
            return bulk(library.version().encode())
        return b"-MOVED 1 127.0.0.1:%d\r\n" % port[0]

    return answer


def test_a_server_that_forgets_its_functions_each_time_is_unavailable_in_time() -> None:
    with fake(no_functions_ever) as server:
        _is_unavailable_soon(server)


def test_two_servers_that_send_us_to_each_other_are_unavailable_in_time() -> None:
    other: list[int] = []
    with fake(go_to(other)) as one, fake(go_to([one.port])) as two:
        other.append(two.port)
        _is_unavailable_soon(one)


def _is_unavailable_soon(server: Fake) -> None:
    with holdfast.connect(server.url, retry_for=0.3, check="off") as hf:
        began = time.monotonic()
        with pytest.raises(Unavailable):
            hf.queue("q").send(b"x")
        assert time.monotonic() - began < 2
    assert len(server.commands) < 200


@pytest.mark.slow
def test_where_a_slot_has_moved_is_remembered(nodes: list[Server]) -> None:
    with holdfast.connect(nodes[0].url, check="off") as hf:
        q = hf.queue("remembered")
        q.send(b"x")
        slot = key_slot(b"hf1:{remembered}")
        there, _ = owner(nodes, slot)
        others = [node for node in nodes if node is not there]
        before = [node.info("commandstats").get("cmdstat_fcall") for node in others]
        for _ in range(5):
            q.send(b"y")
        assert [node.info("commandstats").get("cmdstat_fcall") for node in others] == before
