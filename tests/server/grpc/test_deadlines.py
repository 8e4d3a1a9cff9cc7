"""Deadlines and cancellation: a call that nobody waits for any more holds nothing."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import grpc
import pytest

from holdfast import AsyncClient, AsyncDelivery
from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.grpc import values
from holdfast.server.grpc.call import Desk
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter
from holdfast.v1 import broker_pb2 as pb
from tests.server.grpc.conftest import Opened, opened
from tests.server.grpc.eventually import eventually


async def test_a_wait_ends_when_a_message_comes(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    waiting = served.queues.Receive(pb.ReceiveRequest(queues=[name], wait_ms=20_000))
    await asyncio.sleep(0)
    await direct.queue(name).send(b"x")
    async with asyncio.timeout(5):
        assert [d.body for d in (await waiting).deliveries] == [b"x"]


@pytest.mark.slow
async def test_a_wait_longer_than_the_deadline_answers_empty_handed_before_it(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    started = time.monotonic()
    request = pb.ReceiveRequest(queues=[name], wait_ms=60_000)
    answer = await served.queues.Receive(request, timeout=2.5)
    assert list(answer.deliveries) == []
    assert 1.5 < time.monotonic() - started < 2.5
    await direct.queue(name).send(b"x")
    assert await direct.queue(name).receive(wait=2) is not None


@pytest.mark.slow
async def test_the_same_for_observe(served: Opened, direct: AsyncClient, name: str) -> None:
    await direct.topic(name).subscribe(name)
    request = pb.ObserveRequest(consumer=name, wait_ms=60_000)
    answer = await served.broker.Observe(request, timeout=2.5)
    assert list(answer.records) == []


async def test_a_cancelled_wait_holds_nothing(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    q = direct.queue(name)
    waiting = served.queues.Receive(pb.ReceiveRequest(queues=[name], wait_ms=60_000))
    await eventually(lambda: waits(served), what="the call waits")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await q.send(b"x")
    assert await q.receive(wait=5) is not None


async def waits(served: Opened) -> bool:
    return bool(served.door._desk._waiting)


async def test_who_goes_away_in_the_moment_of_taking_keeps_nothing(
    direct: AsyncClient, name: str
) -> None:
    """The cancellation comes when the messages are taken and the call has not yet gone on."""
    q = direct.queue(name)
    await q.send(b"x")
    desk = Desk(Broker(direct), Gate(), Meter(Limits()))

    async def taking() -> list[AsyncDelivery]:
        got = await q.receive_many(1)
        asyncio.get_running_loop().call_soon(call.cancel)
        return got

    call = asyncio.ensure_future(desk.until_quiet(taking()))
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await q.receive(wait=5) is not None


async def test_a_call_that_fails_after_it_has_taken_gives_back(
    served: Opened, direct: AsyncClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("cannot be said")

    monkeypatch.setattr(values, "delivery", fail)
    await direct.queue(name).send(b"x")
    with pytest.raises(grpc.aio.AioRpcError):
        await served.queues.Receive(pb.ReceiveRequest(queues=[name]))
    assert await direct.queue(name).receive(wait=5) is not None


@pytest.mark.slow
async def test_an_answer_is_never_larger_than_a_client_takes_and_the_rest_is_given_back(
    served: Opened, direct: AsyncClient, name: str
) -> None:
    """A client with gRPC's own limit of 4 MB asks for ten messages of a megabyte."""
    q = direct.queue(name)
    ids = await q.send_many([bytes(1_000_000)] * 10)
    seen: list[str] = []
    while len(seen) < 10:
        request = pb.ReceiveRequest(queues=[name], count=10, wait_ms=5_000)
        got = (await served.queues.Receive(request)).deliveries
        assert len(got) in (1, 3)
        assert {d.receives for d in got} == {1}
        seen += [d.id for d in got]
        held = partial(_leased, direct, name, len(seen))
        await eventually(held, what="the rest was given back")
    assert seen == ids


async def _leased(client: AsyncClient, name: str, count: int) -> bool:
    return (await client.queue(name).stats()).leased == count


async def test_waiting_calls_are_sent_away_when_the_server_stops(
    direct: AsyncClient, name: str
) -> None:
    async with opened(direct) as served:
        waiting = asyncio.ensure_future(
            _receive(served, pb.ReceiveRequest(queues=[name], wait_ms=60_000))
        )
        await eventually(lambda: waits(served), what="the call waits")
        await served.door.quiet()
        async with asyncio.timeout(2):
            assert list((await waiting).deliveries) == []


async def _receive(served: Opened, request: pb.ReceiveRequest) -> pb.ReceiveResponse:
    answer: pb.ReceiveResponse = await served.queues.Receive(request)
    return answer


async def test_a_wait_past_the_servers_limit_is_refused(served: Opened, name: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await served.queues.Receive(pb.ReceiveRequest(queues=[name], wait_ms=2**40))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
