"""gRPC for the synchronous client: the same names as in `channel_async.py`."""

from __future__ import annotations

import grpc

from holdfast.client.channel_async import OPTIONS, refuse_in_a_child
from holdfast.client.remote_address import RemoteAddress

__all__ = ["Channel", "channel", "close"]

Channel = grpc.Channel


def channel(address: RemoteAddress) -> Channel:
    refuse_in_a_child()
    if not address.tls:
        return grpc.insecure_channel(address.target, OPTIONS)
    credentials = grpc.ssl_channel_credentials(address.ca, address.key, address.cert)
    return grpc.secure_channel(address.target, credentials, OPTIONS)


def close(used: Channel) -> None:
    """Calls under way are cancelled."""
    used.close()
