"""Where a door may listen, and what it must have to listen there."""

from __future__ import annotations

import itertools

import pytest

from holdfast.errors import InvalidArgument, NotSafe
from holdfast.server import binding
from holdfast.server.binding import Bind


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:6399", "127.0.0.1", 6399),
        ("[::1]:0", "::1", 0),
        ("localhost:0", "localhost", 0),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
    ],
)
def test_an_address_is_host_and_port_and_prints_as_it_was(text: str, host: str, port: int) -> None:
    found = Bind.parse(text, "--resp")
    assert (found.host, found.port) == (host, port)
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    ["", "6399", ":6399", "host:", "host:x", "host:-1", "host:65536", "::1:6399", "[a]:1", "h:٣"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"--resp: .* is not HOST:PORT; write 127\.0\.0\.1"):
        Bind.parse(text, "--resp")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("fe80::1%eth0", False),
        ("::ffff:192.0.2.1", False),
        ("no-such-host.invalid", False),
    ],
)
def test_only_the_machines_own_addresses_are_loopback(host: str, expected: bool) -> None:
    assert Bind(host, 0).loopback() is expected


@pytest.mark.parametrize(
    ("loopback", "tokens", "tls", "mtls", "insecure"),
    [
        row
        for row in itertools.product([True, False], repeat=5)
        if row[2] or not row[3]  # mTLS is TLS
    ],
)
def test_strangers_need_a_credential_and_credentials_need_tls(
    loopback: bool, tokens: bool, tls: bool, mtls: bool, insecure: bool
) -> None:
    bind = Bind("127.0.0.1" if loopback else "0.0.0.0", 6399)

    def check() -> None:
        binding.check(bind, "the resp door", tokens=tokens, tls=tls, mtls=mtls, insecure=insecure)

    if loopback or mtls or (tokens and (tls or insecure)):
        check()
    elif not tokens:
        # --insecure is about clear text: it never lets strangers in without a token.
        with pytest.raises(NotSafe, match="holdfast token new"):
            check()
    else:
        with pytest.raises(NotSafe, match="clear text"):
            check()
