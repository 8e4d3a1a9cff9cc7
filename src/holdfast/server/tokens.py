"""Tokens: who may enter, and what they may do, in a TOML file that keeps no secret.

    [[token]]
    name = "shop"
    sha256 = "9f86d081884c7d65…"
    allow = ["send queue:orders.*", "publish topic:prices"]
    certificate = "shop.example"      # also whoever shows this certificate, where mTLS is on

A secret is 256 random bits that we draw ourselves, so one SHA-256 is enough: scrypt and its like make
guessing a *weak* password slow, and nobody guesses 256 bits at any speed. They would also cost
each gRPC call tens of milliseconds, which is a way to overload the server.

The file is replaced whole (written beside, then renamed), so that a server that reads it meanwhile
sees the old one or the new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import InvalidArgument
from holdfast.server.access import Principal, right

# Scanners for leaked secrets, and people, know by it what they have found.
PREFIX = "hf_"
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_FIELDS = ("name", "sha256", "allow", "certificate")


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    allow: tuple[str, ...]
    digest: bytes | None = field(default=None, repr=False)
    """SHA-256 of the secret; None for one that only a certificate opens."""
    certificate: str | None = None

    def principal(self) -> Principal:
        key = self.digest or (self.certificate or "").encode()
        return Principal(self.name, tuple(right(text) for text in self.allow), key)


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def new(name: str, allow: Sequence[str], *, certificate: str | None = None) -> tuple[Token, str]:
    """A token and its secret, which is kept nowhere. Raises InvalidArgument for a bad name or right."""
    _check_name(name)
    if not allow:
        raise InvalidArgument(f"the token {name!r} allows nothing; give it a right, as 'all *:*'")
    for text in allow:
        right(text)
    secret = PREFIX + secrets.token_urlsafe(32)
    return Token(name, tuple(allow), digest_of(secret), certificate), secret


def read(path: Path) -> list[Token]:
    """The tokens in this file. Raises InvalidArgument, naming the entry, if it is not a good one."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise InvalidArgument(
            f"there is no token file {path}; make one with: holdfast token new NAME --file {path}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the token file {path}: {error}") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"the token file {path} is not TOML: {error}") from None
    entries = tables.pop("token", [])
    if tables or not isinstance(entries, list):
        raise InvalidArgument(f"the token file {path} may have [[token]] tables only")
    found = [_token(entry, f"entry {n} of {path}") for n, entry in enumerate(entries, 1)]
    for field_name in ("name", "digest", "certificate"):
        seen: set[object] = set()
        for token in found:
            value = getattr(token, field_name)
            if value is not None and value in seen:
                raise InvalidArgument(f"two tokens in {path} have one {field_name}: {token.name!r}")
            seen.add(value)
    return found


@contextmanager
def changing(path: Path) -> Iterator[list[Token]]:
    """The tokens of the file, to change in place; written back when the block ends well.

    One at a time: of two that add a token at once, the second sees what the first has added.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as error:
        raise InvalidArgument(f"cannot use the folder {path.parent}: {error.strerror}") from None
    try:
        # The folder, since the file itself is replaced, and its lock would go with it.
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = read(path) if path.exists() else []
        yield found
        write(path, found)
    finally:
        os.close(folder)


def write(path: Path, tokens: Sequence[Token]) -> None:
    """Replace the file by these tokens, readable for its owner alone."""
    text = (
        "# Written by `holdfast token`. Hashes only: a lost secret is replaced, never recovered.\n"
    )
    text += "".join("\n" + _toml(token) for token in tokens)
    try:
        # mkstemp gives 0600 from the first moment, whatever the umask is.
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InvalidArgument(f"cannot write the token file {path}: {error}") from None


def exposed(path: Path) -> str | None:
    """What is wrong with the file's permissions; None if nothing is."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & stat.S_IWOTH:
        return (
            f"everybody may write {path} (mode {mode:04o}) and so let themselves in; chmod 600 it"
        )
    if mode & stat.S_IROTH:
        return f"everybody may read {path} (mode {mode:04o}); chmod 600 it"
    return None


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} is no name for a token: 1 to 64 of letters, digits and . _ - @"
        )


def _token(entry: object, where: str) -> Token:
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{where} must be a [[token]] table")
    unknown = sorted(set(entry) - set(_FIELDS))
    if unknown:
        # The name of a key alone: its value may be a secret somebody wrote down here.
        raise InvalidArgument(
            f"{where} has the unknown key {unknown[0]!r}; there are: {', '.join(_FIELDS)}"
        )
    try:
        _check_name(entry.get("name"))
        digest = _digest(entry.get("sha256"))
        certificate = entry.get("certificate")
        if certificate is not None and (not isinstance(certificate, str) or not certificate):
            raise InvalidArgument("certificate must be the common name of one")
        if digest is None and certificate is None:
            raise InvalidArgument("it needs sha256 or certificate, or nobody could use it")
        allow = entry.get("allow")
        if not isinstance(allow, list) or not all(isinstance(a, str) for a in allow):
            raise InvalidArgument('allow must be a list of rights, as ["send queue:orders.*"]')
        for text in allow:
            right(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error}") from None
    return Token(entry["name"], tuple(allow), digest, certificate)


def _digest(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise InvalidArgument(
            "sha256 must be the 64 hex digits of the secret's hash, never the secret itself; "
            "`holdfast token new` writes it"
        )
    return bytes.fromhex(value)


def _toml(token: Token) -> str:
    # A JSON string is a TOML basic string, but for DEL, which JSON leaves as it is, and for the
    # pairs of surrogates that JSON writes where it must be ASCII.
    def quoted(text: str) -> str:
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = ["[[token]]", f"name = {quoted(token.name)}"]
    if token.digest is not None:
        lines.append(f'sha256 = "{token.digest.hex()}"')
    lines.append(f"allow = [{', '.join(quoted(text) for text in token.allow)}]")
    if token.certificate is not None:
        lines.append(f"certificate = {quoted(token.certificate)}")
    return "\n".join(lines) + "\n"
