"""TLS for the doors: the three files, checked at start, and what a verified certificate is called.

The RESP door needs an ssl.SSLContext, the gRPC door the files' bytes; both come from here, so that
a wrong file is found once, before any door opens, and told in the same words.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class TlsFiles:
    cert: Path
    """The server's certificate, and those between it and its CA, in PEM."""
    key: Path
    client_ca: Path | None = None
    """Clients must show a certificate that this CA has signed (mTLS); None: they need none."""

    def context(self) -> ssl.SSLContext:
        """Raises InvalidArgument, naming the file, if one cannot be used."""
        for what, path in (("cert", self.cert), ("key", self.key), ("client_ca", self.client_ca)):
            if path is not None:
                _readable(f"tls {what}", path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_passphrase)
        except InvalidArgument as error:
            raise InvalidArgument(f"the TLS key {self.key} {error}") from None
        except (ssl.SSLError, OSError) as error:
            raise InvalidArgument(
                f"the TLS certificate {self.cert} and key {self.key} cannot be used: "
                f"{_reason(error)}; both must be PEM, and the key that of the certificate"
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except (ssl.SSLError, OSError) as error:
                raise InvalidArgument(
                    f"the client CA {self.client_ca} cannot be used: {_reason(error)}; "
                    "it must be a PEM file of CA certificates"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The subject's common name, from what SSLObject.getpeercert() gave; None if it has none."""
    for pairs in (certificate or {}).get("subject", ()):
        for key, value in pairs:
            if key == "commonName":
                return str(value)
    return None


def _readable(what: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise InvalidArgument(f"cannot read the {what} file {path}: {error.strerror}") from None


def _no_passphrase() -> str:
    # Without this, OpenSSL asks on the terminal, and a service hangs there for ever.
    raise InvalidArgument("has a passphrase; a service cannot type it: store the key without one")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
