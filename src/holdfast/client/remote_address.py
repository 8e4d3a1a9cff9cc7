"""Where a Holdfast server is, and what to show it.

    grpc://host:port        as it is
    grpcs://host:port       with TLS; ca, cert and key are files

The token comes as an argument or from HOLDFAST_TOKEN, never in the URL, and never shows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import InvalidArgument

SCHEMES = ("grpc", "grpcs")
_EXAMPLE = "for example grpc://localhost:7433"

File = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    host: str
    port: int
    tls: bool
    token: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    cert: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'grpcs' if self.tls else 'grpc'}://{self.target}"

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()


def is_remote(url: str | None) -> bool:
    return bool(url) and str(url).partition("://")[0] in SCHEMES


def parse(
    url: str,
    token: str | None = None,
    ca: File | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> RemoteAddress:
    """Raises InvalidArgument if the URL cannot be one, or the files do not fit it."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise InvalidArgument(f"{scheme}:// is not a Holdfast server's address; {_EXAMPLE}")
    if "@" in rest:
        # Not repeated: what stands before the @ is a secret.
        raise InvalidArgument(
            "credentials do not belong into the URL; use token= or HOLDFAST_TOKEN"
        )
    try:
        split = urlsplit(f"//{rest}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise InvalidArgument(f"{rest!r} is no host and port: {error}; {_EXAMPLE}") from None
    if not host or not port:
        raise InvalidArgument(f"a Holdfast server's address needs a host and a port; {_EXAMPLE}")
    if split.path.strip("/") or split.query or split.fragment:
        raise InvalidArgument(f"a Holdfast server's address is host and port alone; {_EXAMPLE}")
    tls = scheme == "grpcs"
    if not tls and (ca or cert or key):
        raise InvalidArgument("ca, cert and key are for grpcs://")
    if bool(cert) != bool(key):
        raise InvalidArgument("cert and key go together")
    token = token or os.environ.get("HOLDFAST_TOKEN") or None
    return RemoteAddress(
        host, port, tls, token, _read(ca, "ca"), _read(cert, "cert"), _read(key, "key")
    )


def _read(file: File | None, what: str) -> bytes | None:
    if file is None:
        return None
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot read {what} file {file}: {error.strerror}") from None
