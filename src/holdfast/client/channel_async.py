"""gRPC for the asynchronous client. `channel_sync.py` offers the same names to the generated one."""

from __future__ import annotations

import os

import grpc

from holdfast.client.remote_address import RemoteAddress
from holdfast.errors import Unsupported

__all__ = ["OPTIONS", "Channel", "channel", "close", "refuse_in_a_child"]

Channel = grpc.aio.Channel

OPTIONS = [
    # The server has limits of its own, and says so better.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A server that comes back is to be found soon, not after gRPC's up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A server that vanished without a word is noticed while a call waits.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Channels of one process to one address share a connection by default, its fate included.
    ("grpc.use_local_subchannel_pool", 1),
]

# The process that made the first channel.
_user: list[int] = []


def refuse_in_a_child() -> None:
    """gRPC works in threads that a fork leaves behind, also with GRPC_ENABLE_FORK_SUPPORT: in the child of a
    process that has used it, calls hang."""
    if not _user:
        _user.append(os.getpid())
    if _user != [os.getpid()]:
        raise Unsupported(
            "this process was forked from one that has used gRPC, and gRPC does not survive that: connect to "
            "grpc:// in the children alone, start them with 'spawn', or use redis://…"
        )


def channel(address: RemoteAddress) -> Channel:
    refuse_in_a_child()
    if not address.tls:
        return grpc.aio.insecure_channel(address.target, OPTIONS)
    credentials = grpc.ssl_channel_credentials(address.ca, address.key, address.cert)
    return grpc.aio.secure_channel(address.target, credentials, OPTIONS)


async def close(used: Channel) -> None:
    """Calls under way are cancelled."""
    await used.close(None)
