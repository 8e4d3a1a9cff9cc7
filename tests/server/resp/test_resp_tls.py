"""TLS on the RESP door: who may connect, and whom a certificate makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import trustme
from redis.backoff import NoBackoff
from redis.retry import Retry

from holdfast.server.gate import Gate
from holdfast.server.tls import TlsFiles
from holdfast.server.tokens import Token
from tests.server.resp.running import Running

OpenDoor = Callable[..., Running]
# Who is refused is refused; redis-py would try for ten seconds more.
AT_ONCE = Retry(NoBackoff(), 0)


def written(folder: Path, name: str, cert: trustme.LeafCert) -> tuple[Path, Path]:
    chain, key = folder / f"{name}.pem", folder / f"{name}.key"
    chain.write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
    key.write_bytes(cert.private_key_pem.bytes())
    return chain, key


def client(door: Running, ca: Path, cert: tuple[Path, Path] | None = None) -> redis.Redis:
    own = {"ssl_certfile": str(cert[0]), "ssl_keyfile": str(cert[1])} if cert else {}
    return redis.Redis(port=door.port, ssl=True, ssl_ca_certs=str(ca), retry=AT_ONCE, **own)  # type: ignore[arg-type]


@pytest.fixture
def ca(tmp_path: Path) -> tuple[trustme.CA, Path]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return authority, tmp_path / "ca.pem"


@pytest.mark.slow
def test_commands_travel_over_tls(
    open_door: OpenDoor, ca: tuple[trustme.CA, Path], tmp_path: Path, name: str
) -> None:
    cert, key = written(tmp_path, "server", ca[0].issue_cert("localhost", "127.0.0.1"))
    door = open_door(tls=TlsFiles(cert, key).context())
    with client(door, ca[1]) as r:
        bodies = [bytes(200_000)] * 10
        ids = r.execute_command("MQ.PUSH", name, *bodies)
        assert [body for _, body in r.execute_command("MQ.POP", 10, name)] == bodies
        assert r.execute_command("MQ.ACK", name, *ids) == ids
    with redis.Redis(port=door.port, retry=AT_ONCE) as plain, pytest.raises(redis.ConnectionError):
        plain.ping()
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with client(door, tmp_path / "other.pem") as r, pytest.raises(redis.ConnectionError):
        r.ping()


@pytest.mark.slow
def test_a_certificate_can_stand_for_a_token(
    open_door: OpenDoor, ca: tuple[trustme.CA, Path], tmp_path: Path, name: str
) -> None:
    cert, key = written(tmp_path, "server", ca[0].issue_cert("localhost", "127.0.0.1"))
    known = written(tmp_path, "ada", ca[0].issue_cert("ada.example", common_name="ada"))
    other = written(tmp_path, "bob", ca[0].issue_cert("bob.example", common_name="bob"))
    stranger = written(tmp_path, "eve", trustme.CA().issue_cert("eve.example", common_name="ada"))
    gate = Gate([Token("ada", ("send queue:shop.*",), certificate="ada")])
    door = open_door(tls=TlsFiles(cert, key, ca[1]).context(), gate=gate)
    with client(door, ca[1], known) as r:
        assert len(r.execute_command("MQ.PUSH", name, "a")) == 1
        with pytest.raises(redis.exceptions.NoPermissionError, match="ada may not receive"):
            r.execute_command("MQ.POP", 1, name)
    with client(door, ca[1], other) as r, pytest.raises(redis.AuthenticationError):
        r.execute_command("MQ.PUSH", name, "a")
    for cert_ in (stranger, None):
        with client(door, ca[1], cert_) as r, pytest.raises(redis.ConnectionError):
            r.ping()
