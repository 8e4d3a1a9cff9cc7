"""A server killed with kill -9 while streams are open: nothing is lost, and nothing stays away."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from holdfast import AsyncClient
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1.broker_pb2_grpc import QueuesStub
from tests.server.serving import serving


@pytest.mark.slow
async def test_what_streams_held_comes_back_when_its_lease_ends(
    direct: AsyncClient, valkey: str, name: str, tmp_path: Path
) -> None:
    q = direct.queue(name)
    ids = set(await q.send_many([b"%d" % i for i in range(50)]))
    acked: set[str] = set()
    with serving(tmp_path, valkey) as server:
        async with grpc.aio.insecure_channel(server.ready["grpc"]) as channel:
            stub: Any = QueuesStub(channel)
            request = pb.ReceiveStreamRequest(
                queues=[name], lease_ms=2_000, flow=pb.Flow(max_in_flight=20, heartbeat=True)
            )
            streams = [stub.ReceiveStream(request) for _ in range(2)]
            for stream in streams:
                first = await stream.read()
                done = await stub.Ack(
                    pb.AckRequest(queue=name, receipts=[d.receipt for d in first.deliveries[:5]])
                )
                acked |= {receipt.partition("@")[0] for receipt in done.receipts}
            assert len(acked) == 10
            server.process.send_signal(signal.SIGKILL)
            server.process.wait(10)
            with pytest.raises(grpc.aio.AioRpcError):
                while await streams[0].read():
                    pass
    seen: set[str] = set()
    while len(seen) < 40:
        got = await q.receive_many(50, wait=10)
        assert got, f"{40 - len(seen)} messages never came back"
        seen |= {d.id for d in got}
        await q.ack_many(got)
    assert seen == ids - acked
