"""Topics over gRPC with nothing but the contract's stubs, as a program in any language would.

    python examples/grpc_prices.py HOST:PORT         of a `holdfast serve`

One consumer observes a stream with room for two messages, acks each, and gets the next.
"""

from __future__ import annotations

import sys

import grpc

from holdfast.v1 import broker_pb2 as pb
from holdfast.v1.broker_pb2_grpc import BrokerStub


def main(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        broker = BrokerStub(channel)
        seat = pb.Seat(topic="prices", consumer="till")
        broker.Subscribe(pb.SubscribeRequest(topic=seat.topic, consumer=seat.consumer))
        for cents in (250, 275, 260):
            broker.Publish(pb.PublishRequest(topic="prices", payload=b"%d" % cents))

        request = pb.ObserveStreamRequest(consumer="till", flow=pb.Flow(max_in_flight=2))
        stream = broker.ObserveStream(request)
        seen = 0
        for answer in stream:
            for record in answer.records:
                print(f"{record.source}: {record.body.decode()} cents")
                broker.Ack(pb.AckRequest(seat=seat, receipts=[record.receipt]))
                seen += 1
            if seen == 3:
                break
        # What it held and nobody acked would be given back now.
        stream.cancel()  # type: ignore[no-untyped-call]
        stats = broker.Stats(pb.StatsRequest(seat=seat))
        print(f"acked {stats.acked}, left {stats.ready + stats.leased}")


if __name__ == "__main__":
    main(sys.argv[1])
