"""Certificates for tests: a CA of our own, a server, clients, and one that has expired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

from holdfast.server.tls import TlsFiles


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, and the CA that vouches for it."""

    cert: Path
    key: Path
    ca: Path

    def files(self, client_ca: Path | None = None) -> TlsFiles:
        return TlsFiles(self.cert, self.key, client_ca)


class Authority:
    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._ca = trustme.CA()
        self.file = self._folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, *identities: str, name: str | None = None, expired: bool = False) -> Pair:
        """For these hosts (default loopback), with this common name."""
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        before = datetime(2020, 1, 1, tzinfo=UTC) if expired else None
        issued = self._ca.issue_cert(
            *(identities or ("localhost", "127.0.0.1", "::1")),
            common_name=name,
            not_before=before,
            not_after=until,
        )
        stem = f"{len(list(self._folder.iterdir()))}"
        cert, key = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(cert, append=number > 0)
        issued.private_key_pem.write_to_path(key)
        return Pair(cert, key, self.file)
