"""The gRPC door: two services of our own, the standard health service, and reflection if asked for.

    door = GrpcDoor(broker, gate, meter, "127.0.0.1", 0)
    await door.open()           # door.address is the real one
    await door.quiet()          # nothing new; waiting calls end; acks and nacks still welcome
    await door.close(5.0)       # what is in hand may finish, what streams hold is given back

gRPC's server offers no count of connections: `limits.connections` bounds the calls under way instead,
streams included. What a connection costs without a call is a socket and some KB.
"""

from __future__ import annotations

import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection as reflecting

from holdfast.server.broker import Broker
from holdfast.server.gate import Gate
from holdfast.server.grpc.call import Desk, until
from holdfast.server.grpc.queues import Queues
from holdfast.server.grpc.topics import Topics
from holdfast.server.limits import Limits
from holdfast.server.meter import Meter
from holdfast.server.tls import TlsFiles
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1 import broker_pb2_grpc

SERVICES = ("holdfast.v1.Broker", "holdfast.v1.Queues")
assert set(SERVICES) == {s.full_name for s in pb.DESCRIPTOR.services_by_name.values()}

# A client that vanished without a word is noticed within these, and what its streams held is given
# back.
_PING_EVERY_MS = 20_000
_PING_TIMEOUT_MS = 10_000


class GrpcDoor:
    def __init__(
        self,
        broker: Broker,
        gate: Gate,
        meter: Meter,
        host: str,
        port: int,
        tls: TlsFiles | None = None,
        reflection: bool = False,
    ) -> None:
        self._desk = Desk(broker, gate, meter)
        self._host = host
        self._port = port
        self._tls = tls
        self._reflection = reflection
        self._health = HealthServicer()
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """host:port, with the real port once the door is open."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    async def open(self) -> None:
        """Raises OSError if the address cannot be had."""
        limits = self._desk.broker.limits
        server = grpc.aio.server(
            options=_options(limits), maximum_concurrent_rpcs=limits.connections
        )
        broker_pb2_grpc.add_BrokerServicer_to_server(Topics(self._desk), server)
        broker_pb2_grpc.add_QueuesServicer_to_server(Queues(self._desk), server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        if self._reflection:
            names = (*SERVICES, "grpc.health.v1.Health", reflecting.SERVICE_NAME)
            reflecting.enable_server_reflection(names, server)
        try:
            self._port = self._listen(server)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self.address} for gRPC: {error}") from None
        await server.start()
        self._server = server
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def _listen(self, server: grpc.aio.Server) -> int:
        if self._tls is None:
            return server.add_insecure_port(self.address)
        self._tls.context()  # finds files that do not fit, and says so better than gRPC does
        ca = self._tls.client_ca
        credentials = grpc.ssl_server_credentials(
            [(self._tls.key.read_bytes(), self._tls.cert.read_bytes())],
            root_certificates=ca.read_bytes() if ca else None,
            require_client_auth=ca is not None,
        )
        return server.add_secure_port(self.address, credentials)

    async def quiet(self) -> None:
        """Take on nothing new, end what only waits. Whoever holds messages can still settle them."""
        await self._health.enter_graceful_shutdown()
        self._desk.quiet()

    async def close(self, deadline_s: float) -> None:
        """Let what is in hand finish, for so long; then give back what streams hold, and end."""
        if self._server is None:
            return
        server, self._server = self._server, None
        give_up = time.monotonic() + deadline_s
        if not self._desk.quieting:
            await self.quiet()
        # gRPC's own grace would turn away the very acks that streams wait for.
        await until(lambda: self._desk.busy == 0, deadline_s)
        await server.stop(0.1 if self._desk.busy == 0 else 0)
        # The calls are cancelled, but not yet over; each still has to say what it held.
        await until(lambda: self._desk.busy == 0, 1.0)
        await self._desk.finish(max(give_up - time.monotonic(), 1.0))


def _options(limits: Limits) -> list[tuple[str, int]]:
    options = [
        ("grpc.max_receive_message_length", limits.request_bytes),
        ("grpc.max_send_message_length", -1),
        # Else two servers could share a port without noticing.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", _PING_EVERY_MS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        # Clients may ping as often as this; oftener is taken for an attack and ends the connection.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 5),
    ]
    if limits.idle_seconds:
        options.append(("grpc.max_connection_idle_ms", round(limits.idle_seconds * 1000)))
    return options
