"""Nothing but a HoldfastError leaves the client, whatever the server says."""

from __future__ import annotations

import asyncio
import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import HoldfastError, Outgoing, Refused, Unavailable
from holdfast.engine import library
from tests.client.fake import Answer, array, bulk, fake
from tests.servers import cluster_nodes, primary_with_replica, standalone_server, wait_until

STRANGE = [
    b"+OK\r\n",
    b"+\r\n",
    b":5\r\n",
    b":-9223372036854775808\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    bulk(b""),
    bulk(b"abc"),
    bulk(b"\xff\xfe\x00"),
    bulk(b"x" * 40),
    array(b":1\r\n", b"$-1\r\n"),
    array(bulk(b"a"), bulk(b"b"), b":3\r\n", array(array())),
    array(b"-ERR inside\r\n", b":1\r\n"),
    array(*[b":%d\r\n" % i for i in range(12)]),
    array(*[bulk(b"%d" % i) for i in range(12)]),
    b"-ERR\r\n",
    b"-\r\n",
    b"-\xff\xfe\r\n",
    b"-MOVED\r\n",
    b"-MOVED 1 \r\n",
    b"-MOVED x y:z\r\n",
    b"-MOVED 1 :7\r\n",
    b"-ASK 99999 ?:1\r\n",
    b"-UNBLOCKED demoted\r\n",
    b"-NOREPLICAS too few\r\n",
    b"-LOADING\r\n",
    b"-STALE\r\n",
    b"%1\r\n+a\r\n:1\r\n",
    b"\x00\x01\x02\r\n",
    b"$99999999999\r\n",
    b"*2\r\n:1\r\n",
]


def gibberish(seed: int, clever: bool) -> Answer:
    """Any answer to anything; `clever`: it has our functions, so that calls are made at all."""
    chance = random.Random(seed)

    def answer(words: list[bytes]) -> bytes:
        if clever and words[:2] == [b"FCALL", b"hf1_version"]:
            return bulk(library.version().encode())
        if clever and words[:2] == [b"CLIENT", b"ID"]:
            return b":7\r\n"
        return chance.choice(STRANGE)

    return answer


def everything(hf: holdfast.Client) -> Iterator[Callable[[], Any]]:
    q, topic = hf.queue("q"), hf.topic("t")
    seat = topic.subscription("c")
    yield hf.ping
    yield hf.queues
    yield hf.topics
    yield hf.examine
    yield lambda: q.send(b"x")
    yield lambda: q.send_many([b"x", Outgoing(b"y", dedup_id="z")])
    yield lambda: q.ensure("u", b"x")
    yield q.receive
    yield lambda: q.receive_many(5, wait=0.02)
    yield lambda: q.receive_dead(5)
    yield lambda: q.recover(5, elapsed=0)
    yield lambda: q.reserve("r", 1, [1])
    yield lambda: q.read_reserved("r", 1, 0, 0, 1)
    yield q.reservations
    yield lambda: q.purge("dead")
    yield q.redrive
    yield q.stats
    yield lambda: q.inspect("ready")
    yield lambda: q.get("1-1")
    yield lambda: q.remove("1-1")
    yield lambda: q.configure(lease=3)
    yield q.settings
    yield q.tend
    yield lambda: list(q.journal())
    yield lambda: _one_event(q)
    yield lambda: topic.publish(b"x")
    yield lambda: topic.subscribe("c")
    yield topic.subscriptions
    yield topic.stats
    yield lambda: seat.observe(wait=0.02)
    yield hf.consumer("c").topics
    yield lambda: hf.consumer("c").observe(wait=0.02)


def _one_event(q: holdfast.Queue) -> None:
    with q.events() as events:
        events.get(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [0, 1])
@pytest.mark.parametrize("topology", ["", "?cluster=true"])
@pytest.mark.parametrize("clever", [True, False])
def test_gibberish_ends_in_an_error_of_ours(topology: str, clever: bool, replicas: int) -> None:
    foreign: Counter[str] = Counter()
    for seed in range(4):
        with (
            fake(gibberish(seed, clever)) as server,
            holdfast.connect(
                f"{server.url}{topology}",
                timeout=0.05,
                retry_for=0.02,
                replicas=replicas,
                check="off",
            ) as hf,
        ):
            for act in everything(hf):
                try:
                    act()
                except HoldfastError:
                    continue
                except Exception as error:
                    foreign["".join(traceback.format_exception(error)[-3:])] += 1
    assert not foreign


def test_what_went_wrong_is_told_with_its_cause() -> None:
    def answer(words: list[bytes]) -> bytes:
        if words[:2] == [b"FCALL", b"hf1_version"]:
            return bulk(library.version().encode())
        return b":5\r\n"

    with (
        fake(answer) as server,
        holdfast.connect(server.url, check="off") as hf,
        pytest.raises(HoldfastError, match=r"configure on 'q'.*no sense") as caught,
    ):
        hf.queue("q").send(b"x")
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.slow
def test_a_primary_that_is_demoted_while_it_waits_for_replicas_is_left(tmp_path: Path) -> None:
    """WAIT is answered with an error then."""
    with (
        standalone_server(tmp_path / "a") as first,
        holdfast.connect(first.url, replicas=1, timeout=5, retry_for=0.3, check="off") as hf,
        holdfast.connect(first.url, check="off") as other,
    ):
        other.queue("q").send(b"0")
        ended: list[BaseException] = []

        def sends() -> None:
            try:
                hf.queue("q").send(b"1")
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=sends)
        thread.start()
        wait_until(lambda: first.info("clients")["blocked_clients"] == 1, what="a WAIT")
        first.ask("REPLICAOF", "127.0.0.1", 1)
        thread.join(20)
        first.ask("REPLICAOF", "NO", "ONE")
    [error] = ended
    assert isinstance(error, Unavailable)


@pytest.mark.slow
def test_who_may_not_wait_for_replicas_is_told_so(tmp_path: Path) -> None:
    with primary_with_replica(tmp_path) as both:
        both.primary.ask("ACL", "SETUSER", "me", "on", ">pw", "~*", "&*", "+@all", "-wait")
        url = both.primary.url.replace("://", "://me:pw@")
        with (
            holdfast.connect(url, replicas=1, check="off") as hf,
            pytest.raises(Refused, match="wait"),
        ):
            hf.queue("q").send(b"x")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unknown-endpoint", "hostname"])
def test_nodes_without_a_host_are_found(tmp_path: Path, kind: str) -> None:
    """Their CLUSTER SLOTS and MOVED name none, or '?'."""
    with cluster_nodes(tmp_path) as nodes:
        for node in nodes:
            node.ask("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
        for url in (f"redis://127.0.0.1:{nodes[0].port}?cluster=true", nodes[0].url):
            with holdfast.connect(url, check="off", retry_for=3) as hf:
                for i in range(10):
                    hf.queue(f"q{i}").send(b"x")
                    assert hf.queue(f"q{i}").receive() is not None


@pytest.mark.slow
def test_threads_that_share_a_client_get_errors_of_ours_only(tmp_path: Path) -> None:
    """While all connections are cut again and again."""
    foreign: list[Exception] = []
    stop = threading.Event()
    with (
        standalone_server(tmp_path) as server,
        holdfast.connect(server.url, check="off") as hf,
    ):

        def works(n: int) -> None:
            q = hf.queue(f"q{n % 3}")
            while not stop.is_set():
                try:
                    q.send(b"x")
                    q.ack_many(q.receive_many(2))
                except HoldfastError:
                    continue
                except Exception as error:
                    foreign.append(error)

        threads = [threading.Thread(target=works, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            server.ask("CLIENT", "KILL", "TYPE", "normal")
            before = hf.queue("q0").stats().sent
            wait_until(lambda: hf.queue("q0").stats().sent > before, what="they go on")  # noqa: B023
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not foreign


async def test_gibberish_ends_in_an_error_of_ours_in_asyncio_too() -> None:
    for seed in range(4):
        with fake(gibberish(seed, True)) as server:
            async with holdfast.connect_async(
                server.url, timeout=0.05, retry_for=0.02, check="off"
            ) as hf:
                q = hf.queue("q")
                for act in (q.stats, q.settings, hf.queues, hf.examine):
                    with suppress(HoldfastError):
                        await asyncio.wait_for(act(), 20)
                with suppress(HoldfastError):
                    await q.send(b"x")
                with suppress(HoldfastError):
                    await q.receive_many(3, wait=0.02)


def test_too_few_replicas_at_the_server_is_waited_out(tmp_path: Path) -> None:
    """NOREPLICAS: nothing was written, and another primary may have enough."""
    with (
        standalone_server(tmp_path) as server,
        holdfast.connect(server.url, retry_for=0.2, check="off") as hf,
    ):
        hf.queue("q").send(b"x")
        server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            hf.queue("q").send(b"y")
        with (
            holdfast.connect(server.url, replicas=1, retry_for=0.2, check="off") as other,
            pytest.raises(Unavailable, match="NOREPLICAS"),
        ):
            other.queue("q").send(b"y")
        server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        assert hf.queue("q").stats().ready == 1


def test_a_message_that_is_cut_short_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as server, holdfast.connect(server.url, check="off") as hf:
        q = hf.queue("q")
        q.send_many([b"a", b"b", b"c"])
        record = server.raw("LINDEX", "hf1:{q}:r0", 1)
        server.raw("LSET", "hf1:{q}:r0", 1, record[:14])
        assert [d.body for d in q.receive_many(3)] == [b"a", b"c"]
