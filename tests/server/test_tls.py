"""TLS contexts from files: what works, what is refused at start, who may shake hands."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgument
from holdfast.server.tls import TlsFiles, common_name
from tests.server.certificates import Authority, Pair


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"), "theirs")


def shake_hands(
    server: ssl.SSLContext, ca: Path, client: Pair | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake, in memory. Raises ssl.SSLError if an end refuses."""
    context = ssl.create_default_context(cafile=ca)
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        context.wrap_bio(down, up, server_hostname="localhost"),
        server.wrap_bio(up, down, server_side=True),
    )
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
        if not waiting:
            return ends
    raise AssertionError("the handshake does not end")


def test_a_client_that_trusts_the_ca_gets_in_without_a_certificate(ours: Authority) -> None:
    client, server = shake_hands(ours.issue().files().context(), ours.file)
    assert client.version() in ("TLSv1.2", "TLSv1.3")
    assert server.getpeercert() is None


def test_a_client_that_trusts_another_ca_does_not_talk_to_us(
    ours: Authority, theirs: Authority
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="issuer"):
        shake_hands(ours.issue().files().context(), theirs.file)


def test_a_client_does_not_talk_to_a_server_whose_certificate_has_expired(ours: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(ours.issue(expired=True).files().context(), ours.file)


def test_with_a_client_ca_the_name_of_the_client_is_known(ours: Authority) -> None:
    context = ours.issue().files(client_ca=ours.file).context()
    _, server = shake_hands(context, ours.file, ours.issue("shop.example", name="shop"))
    assert common_name(server.getpeercert()) == "shop"


def test_with_a_client_ca_a_client_without_a_certificate_is_turned_away(ours: Authority) -> None:
    context = ours.issue().files(client_ca=ours.file).context()
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        shake_hands(context, ours.file)


@pytest.mark.parametrize("why", ["of another CA", "expired"])
def test_with_a_client_ca_a_bad_certificate_is_turned_away(
    ours: Authority, theirs: Authority, why: str
) -> None:
    context = ours.issue().files(client_ca=ours.file).context()
    shown = theirs.issue("shop") if why == "of another CA" else ours.issue("shop", expired=True)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, ours.file, shown)


def test_old_tls_is_not_spoken(ours: Authority) -> None:
    assert ours.issue().files().context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_no_certificate_has_no_name() -> None:
    assert common_name(None) is None
    assert common_name({}) is None
    assert common_name({"subject": ((("organizationName", "x"),),)}) is None


@pytest.mark.parametrize("which", ["cert", "key", "client_ca"])
def test_a_file_that_is_not_there_is_named(ours: Authority, tmp_path: Path, which: str) -> None:
    pair = ours.issue()
    given = {"cert": pair.cert, "key": pair.key, "client_ca": pair.ca}
    given[which] = tmp_path / "nowhere.pem"
    with pytest.raises(InvalidArgument, match=f"{which} file .*nowhere.pem: No such file"):
        TlsFiles(**given).context()


def test_a_key_of_another_certificate_is_refused(ours: Authority) -> None:
    mixed = TlsFiles(ours.issue().cert, ours.issue().key)
    with pytest.raises(InvalidArgument, match=r"(?i)mismatch.*that of the certificate"):
        mixed.context()


def test_a_file_that_is_no_pem_is_refused(ours: Authority, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    pair = ours.issue()
    with pytest.raises(InvalidArgument, match="must be PEM"):
        TlsFiles(junk, pair.key).context()
    with pytest.raises(InvalidArgument, match="client CA"):
        TlsFiles(pair.cert, pair.key, junk).context()


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(
    ours: Authority, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    pair = ours.issue()
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hunter2"),
        )
    )
    with pytest.raises(InvalidArgument, match="has a passphrase"):
        TlsFiles(pair.cert, locked).context()
