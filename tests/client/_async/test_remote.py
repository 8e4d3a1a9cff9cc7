"""What is particular to a client of a Holdfast server: addresses, credentials, lost connections."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import (
    InvalidArgument,
    LeaseLost,
    NoSuchSubscription,
    Outgoing,
    QueueFull,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from holdfast.server import tokens
from holdfast.server.gate import Gate
from holdfast.server.limits import Limits
from tests.client.proxy import proxied
from tests.client.together import after
from tests.server.certificates import Authority
from tests.server.grpc.running import Running, running


@pytest.fixture
def name() -> str:
    return f"r-{secrets.token_hex(4)}"


@pytest.fixture
def door(url: str) -> Iterator[Running]:
    with running(url) as it:
        yield it


async def test_errors_are_of_the_same_classes(door_url: str, name: str) -> None:
    async with holdfast.connect_async(door_url) as hf:
        q = hf.queue(name)
        await q.configure(max_length=1)
        await q.send(b"x")
        with pytest.raises(QueueFull, match="max_length"):
            await q.send(b"y")
        d = await q.receive()
        assert d is not None
        await q.ack(d.id)
        with pytest.raises(LeaseLost):
            await d.ack()
        with pytest.raises(NoSuchSubscription):
            await hf.consumer(name).observe()
        with pytest.raises(InvalidArgument):
            await hf.topic(name).subscribe(name, mode="loud")  # type: ignore[arg-type]


async def test_what_a_server_does_not_offer_is_said_to_be_unsupported(
    door_url: str, name: str
) -> None:
    async with holdfast.connect_async(door_url) as hf:
        q = hf.queue(name)
        with pytest.raises(Unsupported):
            q.events()
        with pytest.raises(Unsupported):
            await q.journal()
        with pytest.raises(Unsupported):
            await q.tend()
        with pytest.raises(Unsupported):
            await q.set_clock(1)
        with pytest.raises(Unsupported):
            await q.shard_stats()
        with pytest.raises(Unsupported):
            await hf.examine()
        with pytest.raises(Unsupported):
            await hf.start_reaper()
        with pytest.raises(Unsupported):
            await hf.topic(name).inspect("ready")


async def test_topics_through_a_server(door_url: str, name: str) -> None:
    async with holdfast.connect_async(door_url) as hf:
        topic = hf.topic(name)
        subscription = await topic.subscribe(name, peer="p")
        await topic.publish({"price": 7}, attributes={"sku": "A-1"})
        await topic.publish_many([b"b", b"c"])
        [first] = await hf.consumer(name, peer="p").observe(wait=5)
        assert (first.source, first.value, first.attributes) == (name, {"price": 7}, {"sku": "A-1"})
        async with first:
            pass
        seen = []
        async for delivery in subscription.consume(idle=0.2):
            async with delivery:
                seen.append(delivery.body)
        assert seen == [b"b", b"c"]
        assert (await subscription.stats()).acked == 3
        await subscription.touch()
        [info] = await topic.subscriptions()
        assert (info.consumer, info.peer, info.mode) == (name, "p", "broadcast")
        assert (await topic.configure(peer_timeout=5)).peer_timeout == 5
        assert (await subscription.settings()).peer_timeout == 5
        assert (await topic.settings()).peer_timeout == 5
        assert (await topic.stats()).sent == 3
        assert await hf.consumer(name).topics() == [name]
        assert await subscription.unsubscribe()
        await topic.delete()
        assert name not in await hf.topics()


async def test_dead_letters_are_chosen_by_what_is_in_them(door_url: str, name: str) -> None:
    async with holdfast.connect_async(door_url) as hf:
        q = hf.queue(name)
        ids = await q.send_many([b"a", b"b", b"c"])
        await q.bury_many(await q.receive_many(3), "no")
        assert await q.redrive(where=lambda m: m.body == b"b", dry_run=True) == [ids[1]]
        assert await q.redrive(where=lambda m: m.body == b"b") == [ids[1]]
        assert await q.redrive(where=lambda m: False) == []
        assert (await q.stats()).dead == 2


@pytest.mark.slow
async def test_a_server_that_comes_back_is_found_again(door: Running, url: str, name: str) -> None:
    async with holdfast.connect_async(door.url, retry_for=20) as hf:
        q = hf.queue(name)
        await q.send(b"before")
        door.close_door()
        async with (
            holdfast.connect_async(url, check="off") as direct,
            after(0.5, direct, lambda _: reopen(door)),
        ):
            await q.send(b"after")
        assert [d.body for d in await q.receive_many(5, wait=5)] == [b"before", b"after"]


async def reopen(door: Running) -> None:
    door.open_door()


async def test_a_server_that_stays_away_is_told_as_unavailable(door: Running, name: str) -> None:
    async with holdfast.connect_async(door.url, retry_for=0.3, timeout=1) as hf:
        await hf.ping()
        door.close_door()
        with pytest.raises(Unavailable, match="grpc://"):
            await hf.ping()
        with pytest.raises(Unavailable):
            await hf.queue(name).send(b"x")
        door.open_door()


async def test_tokens_open_the_door_and_never_show(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, secret = tokens.new("t", [f"produce queue:{name}"])
    with running(url, gate=Gate([token])) as door:
        async with holdfast.connect_async(door.url) as hf:
            with pytest.raises(Unauthenticated):
                await hf.queue(name).send(b"x")
        async with holdfast.connect_async(door.url, token=secret) as hf:
            await hf.queue(name).send(b"x")
            with pytest.raises(Refused, match="receive"):
                await hf.queue(name).receive()
            for text in (repr(hf), hf.url, repr(vars(hf)), repr(vars(hf.queue(name)))):
                assert secret not in text
        monkeypatch.setenv("HOLDFAST_TOKEN", secret)
        monkeypatch.setenv("HOLDFAST_URL", door.url)
        async with holdfast.connect_async() as hf:
            await hf.queue(name).send(b"x")


async def test_tls_and_a_certificate_of_our_own(url: str, name: str, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    mine = ours.issue("shop.example", name="shop.example")
    token, _ = tokens.new("shop", [f"all queue:{name}"], certificate="shop.example")
    files = ours.issue().files(client_ca=ours.file)
    with running(url, gate=Gate([token]), tls=files) as door:
        secure = door.url.replace("grpc://", "grpcs://")
        async with holdfast.connect_async(secure, ca=ours.file, cert=mine.cert, key=mine.key) as hf:
            await hf.queue(name).send(b"x")
        async with holdfast.connect_async(secure, ca=ours.file, retry_for=0.2) as hf:
            with pytest.raises(Unavailable):
                await hf.queue(name).stats()


async def test_a_batch_past_the_servers_limit_is_too_large(url: str, name: str) -> None:
    with running(url, limits=Limits(request_bytes=10_000, batch=5)) as door:
        async with holdfast.connect_async(door.url) as hf:
            with pytest.raises(TooLarge):
                await hf.queue(name).send_many([b"x"] * 6)
            with pytest.raises(TooLarge):
                await hf.queue(name).send(bytes(20_000))


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("grpc://", {}),
        ("grpc://host", {}),
        ("grpc://host:port", {}),
        ("grpc://host:1/path", {}),
        ("grpc://host:1?x=1", {}),
        ("grpc://s3cret@host:1", {}),
        ("grpc://host:1", {"ca": "x"}),
        ("grpcs://host:1", {"cert": "x"}),
        ("grpcs://host:1", {"ca": "/no/such/file"}),
        ("grpc://host:1", {"home": "x"}),
        ("grpc://host:1", {"replicas": 1}),
        ("grpc://host:1", {"timeout": 0}),
        ("redis://host:1", {"token": "x"}),
    ],
)
async def test_what_does_not_fit_together_is_refused(
    address: str, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument) as error:
        holdfast.connect_async(address, **options)  # type: ignore[arg-type]
    assert "s3cret" not in str(error.value)


@pytest.mark.slow
async def test_a_send_or_publish_whose_answer_is_lost_is_done_once(
    door: Running, name: str
) -> None:
    # In what the server says, an id is the answer; the rest is HTTP/2's own.
    with proxied(door.url, answer=rb"\d{13}-\d") as proxy:
        async with holdfast.connect_async(proxy.url.replace("redis", "grpc")) as hf:
            q, topic = hf.queue(name), hf.topic(name)
            seat = await topic.subscribe("c")
            proxy.lose(b"the body", times=3)
            sent = await q.send(b"the body")
            many = await q.send_many([b"a", Outgoing(b"the body", priority=3)])
            published = await topic.publish(b"the body")
            assert proxy.lost == 3
            assert [str(m.id) for m in await q.inspect("ready")] == [many[1], sent, many[0]]
            assert [str(d.id) for d in await seat.observe(10)] == [published]
            assert (await q.stats()).sent == 3


async def test_dead_letters_of_a_subscription_can_be_received(door_url: str, name: str) -> None:
    async with holdfast.connect_async(door_url) as hf:
        seat = await hf.topic(name).subscribe("c")
        await hf.topic(name).publish(b"x")
        [d] = await seat.observe()
        await d.bury("hopeless")
        [letter] = await seat.receive_dead(wait=5)
        assert letter.death is not None
        assert (letter.body, letter.death.reason) == (b"x", "hopeless")
        await letter.ack()
        assert (await seat.stats()).dead == 0


def test_without_the_extra_connecting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    for module in [m for m in sys.modules if m.startswith("holdfast.client._async.remote")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(Unsupported, match=r"\(grpc\): pip install 'holdfast\[server\]'"):
        holdfast.connect_async("grpc://localhost:1")
