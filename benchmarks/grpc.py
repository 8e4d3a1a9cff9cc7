"""What does the gRPC door give: sending in batches, observing one by one, observing by a stream?

One asyncio client over loopback against `holdfast serve`. One by one is a call a message, which the
server acks by itself; the stream is measured against that although here the client acks, what came in
one piece by one call while the next piece is on its way. With an ack of one's own, one by one is two calls
a message: shown, but too easy to beat. An empty echo service on the same grpcio shows what a call costs
before any work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

import holdfast
from benchmarks.bars import Bar
from benchmarks.doors import serving, started
from benchmarks.echo import METHOD
from benchmarks.rounds import Laps, Ratio, Rounds, interleave
from benchmarks.run import BODY_BYTES, Run, Table
from benchmarks.servers import running
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1.broker_pb2_grpc import BrokerStub, QueuesStub

UNARY, STREAM = "Observe with auto_ack, one by one", "ObserveStream, acked by the piece"
TWO_CALLS = "Observe and Ack, one by one"
SEND, ECHO = "Send of 100", "an empty echo"
BATCH = 100
LIMIT = 20.0
TOPIC, CONSUMER = "bench", "consumer"


@dataclass(frozen=True)
class GrpcResult:
    rounds: Rounds
    """Times are ns per message; of the echo, per call."""
    stream_to_unary: Ratio
    send_to_echo: Ratio
    """Messages sent in the time of one empty call."""

    def tables(self) -> list[Table]:
        rows: list[tuple[str, ...]] = [
            (side, f"{self.rounds.per_second(side):,.0f}", shown)
            for side, shown in (
                (ECHO, ""),
                (TWO_CALLS, ""),
                (UNARY, "1"),
                (STREAM, f"{_shown(self.stream_to_unary)} × one by one"),
                (SEND, f"{_shown(self.send_to_echo)} × an echo"),
            )
        ]
        return [
            Table(
                "The gRPC door, mode fast",
                ("what", "messages/s", "ratio"),
                rows,
                f"{BODY_BYTES}-byte bodies, one asyncio client over loopback; of the echo, calls a second.",
            )
        ]

    def bars(self) -> list[Bar]:
        measured = self.stream_to_unary.median
        return [Bar("ObserveStream, of Observe one by one", measured, "≥", LIMIT)]


def _shown(of: Ratio) -> str:
    return f"{of.median:.1f} ({of.low:.1f}–{of.high:.1f})"


class _Client:
    """The things that are measured; each answers ns per message."""

    def __init__(self, run: Run, address: str, echo: str, topic: holdfast.Topic) -> None:
        self._topic = topic
        self._seat = pb.Seat(topic=TOPIC, consumer=CONSUMER)
        self._channels = [grpc.aio.insecure_channel(a) for a in (address, echo)]
        self._broker: Any = BrokerStub(self._channels[0])
        self._queues: Any = QueuesStub(self._channels[0])
        self._echo: Any = self._channels[1].unary_unary(METHOD, None, None)
        self._bodies = run.bodies(run.choose(5_000, 500))
        self._calls = run.choose(100, 5)
        self._request = pb.SendRequest(
            queue="bench", messages=[pb.OutgoingMessage(body=b) for b in self._bodies[:BATCH]]
        )

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close(None)

    def fill(self, count: int) -> None:
        self._topic.publish_many(self._bodies[:count])

    def check_empty(self) -> None:
        if left := self._topic.subscription(CONSUMER).stats().total:
            raise RuntimeError(f"{left} messages were not acked")

    async def echo(self) -> float:
        started = time.perf_counter_ns()
        for _ in range(self._calls):
            await self._echo(b"")
        return (time.perf_counter_ns() - started) / self._calls

    async def send(self) -> float:
        calls = max(self._calls // 5, 1)
        started = time.perf_counter_ns()
        for _ in range(calls):
            await self._queues.Send(self._request)
        return (time.perf_counter_ns() - started) / (calls * BATCH)

    async def unary(self) -> float:
        self.fill(self._calls)
        request = pb.ObserveRequest(consumer=CONSUMER, auto_ack=True)
        started = time.perf_counter_ns()
        for _ in range(self._calls):
            await self._broker.Observe(request)
        spent = time.perf_counter_ns() - started
        self.check_empty()
        return spent / self._calls

    async def two_calls(self) -> float:
        self.fill(self._calls)
        started = time.perf_counter_ns()
        for _ in range(self._calls):
            reply = await self._broker.Observe(pb.ObserveRequest(consumer=CONSUMER))
            receipts = [record.receipt for record in reply.records]
            await self._broker.Ack(pb.AckRequest(seat=self._seat, receipts=receipts))
        spent = time.perf_counter_ns() - started
        self.check_empty()
        return spent / self._calls

    async def stream(self) -> float:
        self.fill(len(self._bodies))
        started = time.perf_counter_ns()
        got: list[bytes] = []
        acks: list[asyncio.Future[Any]] = []
        flow = pb.Flow(max_in_flight=2_000, batch=500)
        call = self._broker.ObserveStream(pb.ObserveStreamRequest(consumer=CONSUMER, flow=flow))
        while len(got) < len(self._bodies):
            records = (await call.read()).records
            got += [record.body for record in records]
            done = pb.AckRequest(seat=self._seat, receipts=[record.receipt for record in records])
            acks.append(asyncio.ensure_future(self._broker.Ack(done)))
        await asyncio.gather(*acks)
        spent = time.perf_counter_ns() - started
        call.cancel()
        if got != self._bodies:
            raise RuntimeError("the stream did not hand out what was published, in order")
        self.check_empty()
        return spent / len(got)


def measure(run: Run) -> GrpcResult:
    count = run.choose(20, 2)
    with (
        running("fast") as server,
        holdfast.connect(server.url) as ours,
        serving(server) as doors,
        started("benchmarks.echo") as echo,
        asyncio.Runner() as loop,
        run.step("the gRPC door", count + 1) as tick,
    ):
        topic = ours.topic(TOPIC)
        topic.subscribe(CONSUMER)

        async def connect() -> _Client:
            return _Client(run, doors.grpc, echo.strip(), topic)

        client = loop.run(connect())

        def lap(act: Callable[[], Awaitable[float]]) -> Callable[[], Laps]:
            async def once() -> float:
                return await act()

            return lambda: {"all": round(loop.run(once()))}

        sides = {
            ECHO: client.echo,
            SEND: client.send,
            UNARY: client.unary,
            TWO_CALLS: client.two_calls,
            STREAM: client.stream,
        }
        rounds = interleave(
            {name: lap(act) for name, act in sides.items()},
            messages=1,
            rounds=count,
            rng=run.rng,
            tick=tick,
        )
        loop.run(client.close())
    return GrpcResult(rounds, rounds.speed(STREAM, UNARY), rounds.speed(SEND, ECHO))
