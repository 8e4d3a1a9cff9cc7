"""Where doors listen, and which places are too open for what protects them.

Loopback is the machine's own: whoever is there may be trusted, and tokens travel nowhere. Anywhere
else the default is no, at start and before anything listens, because a server that was reachable
for one minute without a token has been read. A warning in the log was rejected: nobody reads it
until it is too late.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from typing import Self

from holdfast.errors import InvalidArgument, NotSafe


@dataclass(frozen=True, slots=True)
class Bind:
    host: str
    port: int
    """0: one that is free."""

    @classmethod
    def parse(cls, text: str, what: str) -> Self:
        """HOST:PORT, an IPv6 host in brackets. Raises InvalidArgument, naming `what`."""
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if bracketed:
            host = host[1:-1]
        number = int(port) if port.isascii() and port.isdigit() else -1
        if not colon or not host or not 0 <= number <= 65535 or (":" in host) != bracketed:
            raise InvalidArgument(
                f"{what}: {text!r} is not HOST:PORT; write 127.0.0.1:6399, [::1]:6399, "
                "0.0.0.0:6399 for all addresses, port 0 for one that is free"
            )
        return cls(host, number)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def loopback(self) -> bool:
        """Nobody from another machine can reach it. A name counts if all its addresses do."""
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            pass
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return False
        return all(ipaddress.ip_address(str(a[4][0]).partition("%")[0]).is_loopback for a in found)


def check(bind: Bind, what: str, *, tokens: bool, tls: bool, mtls: bool, insecure: bool) -> None:
    """Raises NotSafe if what listens there would be open to strangers, with what to do."""
    if bind.loopback():
        return
    if not tokens and not mtls:
        raise NotSafe(
            f"{what} on {bind} could be used by anybody who can reach this machine; "
            "make a token with `holdfast token new NAME --allow 'all *:*'` and give --token-file, "
            "or ask for client certificates with --tls-client-ca, or listen on 127.0.0.1"
        )
    if not tls and not insecure:
        raise NotSafe(
            f"{what} on {bind} would take tokens in clear text, which anybody on the way can read "
            "and use; give --tls-cert and --tls-key, or say --insecure if something else encrypts "
            "the way (a proxy, a VPN, a service mesh)"
        )
