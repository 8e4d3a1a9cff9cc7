"""The way in: a direct client or one of a Holdfast server, whichever the URL asks for."""

from __future__ import annotations

import os
from typing import Any

from holdfast.client import safety
from holdfast.client._async.client import AsyncClient
from holdfast.client.remote_address import File, is_remote
from holdfast.errors import InvalidArgument, Unsupported


def connect_async(
    url: str | None = None,
    *,
    timeout: float = 10.0,
    retry_for: float = 30.0,
    replicas: int = 0,
    check: safety.Check = "warn",
    home: str | os.PathLike[str] | None = None,
    durability: str | None = None,
    token: str | None = None,
    ca: File | None = None,
    cert: File | None = None,
    key: File | None = None,
) -> AsyncClient:
    """A client, to be closed when done, or used in an `async with` block.

    `url`: a Valkey or Redis (`redis://…`, `unix://…`), or a Holdfast server (`grpc://host:port`,
    `grpcs://`); HOLDFAST_URL if not given; the embedded server if that is not set either.

    `timeout`: seconds for one exchange with the server. `retry_for`: how long to try again when it
    cannot be reached.

    For a Valkey: `replicas` that must confirm each write; `check`: what to do when it guarantees less
    than it could. For the embedded server: `home` and `durability`.

    For a Holdfast server: `token` (or HOLDFAST_TOKEN); with `grpcs://` the files `ca` (who signed the
    server's certificate), `cert` and `key` (our own, where the server asks for one).
    """
    url = url or os.environ.get("HOLDFAST_URL") or None
    if url is not None and is_remote(url):
        # Only who needs it pays for gRPC's import, and has to have it.
        try:
            from holdfast.client._async.remote import AsyncRemoteClient
        except ModuleNotFoundError as error:
            raise Unsupported(
                f"grpc:// needs more packages ({error.name}): pip install 'holdfast[server]'"
            ) from None

        _refuse("a Holdfast server", replicas=replicas or None, home=home, durability=durability)
        return AsyncRemoteClient(
            url, timeout=timeout, retry_for=retry_for, token=token, ca=ca, cert=cert, key=key
        )
    _refuse("a direct connection", token=token, ca=ca, cert=cert, key=key)
    return AsyncClient(
        url,
        timeout=timeout,
        retry_for=retry_for,
        replicas=replicas,
        check=check,
        home=home,
        durability=durability,
    )


def _refuse(what: str, **given: Any) -> None:
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise InvalidArgument(f"{', '.join(wrong)}: not for {what}")
