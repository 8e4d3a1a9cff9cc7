"""How much one client may ask of the server. Each limit has its typed error, raised before anything
is written."""

from __future__ import annotations

import msgspec

from holdfast.errors import TooLarge


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message_bytes: int = 16 * 1024 * 1024
    batch: int = 10_000
    """Messages, receipts or ids in one request."""
    connections: int = 10_000
    in_flight_bytes: int = 256 * 1024 * 1024
    """Of requests being worked on and answers not yet read, over all clients."""
    request_bytes: int = 64 * 1024 * 1024
    """Of one request, all its messages together."""
    inline_bytes: int = 64 * 1024
    arguments: int = 20_000
    idle_seconds: float = 0.0
    """A connection that says nothing for so long is closed; 0: never."""
    wait_seconds: float = 3600.0
    """The longest time a client may wait for a message in one request."""

    def check_batch(self, count: int, what: str) -> None:
        if count > self.batch:
            raise TooLarge(
                f"at most {self.batch} {what} in one request, not {count}; send them in several"
            )

    def check_message(self, size: int) -> None:
        if size > self.message_bytes:
            raise TooLarge(
                f"a message may have {self.message_bytes} bytes, this one has {size}; "
                "keep large data elsewhere and send where it is"
            )
