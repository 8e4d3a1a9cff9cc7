"""What the server shall do: flags over HOLDFAST_* over a TOML file over the defaults below.

Every option has one name in three spellings: --token-file, HOLDFAST_TOKEN_FILE, token_file = "…".
The limits of `limits.py` are a table of their own: --limit batch=100, HOLDFAST_LIMIT_BATCH,
[limits] batch = 100.

Each value remembers where it came from, so that an error, and --print-config, can say so. A key
that nobody knows is an error, since it is a setting somebody believes to be in force.

Adding an option? Also: cli/serve.py, docs/server.md; tests/server/test_config.py checks both.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.client.address import parse
from holdfast.client.safety import Check
from holdfast.errors import InvalidArgument
from holdfast.server import binding
from holdfast.server.binding import Bind
from holdfast.server.limits import Limits
from holdfast.server.logs import Format, Level
from holdfast.server.tls import TlsFiles

DEFAULT_RESP = "127.0.0.1:6399"
DEFAULT_GRPC = "127.0.0.1:6400"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    url: str | None = None
    """The Valkey or Redis that keeps the messages; None: the embedded one."""
    resp: str | None = None
    """HOST:PORT of the RESP door; "off" for none."""
    grpc: str | None = None
    """HOST:PORT of the gRPC door; "off" for none."""
    reflection: bool = False
    """Let gRPC tools ask what the services are."""
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    insecure: bool = False
    """Take tokens in clear text from other machines."""
    grace: float = 20.0
    """Seconds from SIGTERM to the end, at most."""
    wait_for_server: float = 10.0
    """Seconds to wait at start for the Valkey behind."""
    retry_for: float = 5.0
    """Seconds a call waits out a Valkey that is away before its caller hears UNAVAILABLE."""
    replicas: int = 0
    """Replicas that must have a message before its sender is told so."""
    check: Check = "warn"
    """What to do about a Valkey that may lose messages: warn, refuse, off."""
    reap_every: float = 1.0
    """Seconds between two rounds over all queues, for what nobody receives; 0: never."""
    log_format: Format = "text"
    log_level: Level = "info"


NAMES = tuple(Options.__struct_fields__)
LIMITS = tuple(Limits.__struct_fields__)
_TYPES = get_type_hints(Options)
_LIMIT_TYPES = get_type_hints(Limits)
_PATHS = {"token_file", "tls_cert", "tls_key", "tls_client_ca"}
_SECONDS = {"grace", "wait_for_server", "retry_for", "reap_every"}
# They hold for all: a server that cannot take one connection or one byte serves nobody.
_MAY_BE_ZERO = {"idle_seconds"}


class Told(NamedTuple):
    value: Any
    source: str
    typed: bool = False
    """By TOML; flags and variables are text that must be read as what is asked for."""


@dataclass(frozen=True)
class Config:
    """What is in force. Raises InvalidArgument or NotSafe when made, if it must not be."""

    options: Options
    limits: Limits
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from that is not a default."""

    def __post_init__(self) -> None:
        for what, bind in self.binds.items():
            binding.check(
                bind,
                f"the {what} door",
                tokens=self.options.token_file is not None,
                tls=self.tls is not None,
                mtls=self.options.tls_client_ca is not None,
                insecure=self.options.insecure,
            )

    @property
    def binds(self) -> dict[str, Bind]:
        """Where each door listens; both at their usual places if nobody has named one."""
        resp, grpc = self.options.resp, self.options.grpc
        if resp is None and grpc is None:
            resp, grpc = DEFAULT_RESP, DEFAULT_GRPC
        asked = {"resp": resp, "grpc": grpc}
        found = {
            name: Bind.parse(text, self._said(name))
            for name, text in asked.items()
            if text is not None and text != "off"
        }
        if not found:
            raise InvalidArgument("no door is left to open; give --resp or --grpc HOST:PORT")
        return found

    @property
    def tls(self) -> TlsFiles | None:
        cert, key, ca = self.options.tls_cert, self.options.tls_key, self.options.tls_client_ca
        if cert is None and key is None and ca is None:
            return None
        if cert is None or key is None:
            lacking = "tls_cert" if cert is None else "tls_key"
            raise InvalidArgument(f"TLS needs both tls_cert and tls_key; {lacking} is missing")
        return TlsFiles(cert, key, ca)

    def _said(self, name: str) -> str:
        return self.sources.get(name, name)

    def shown(self) -> dict[str, Any]:
        """Everything in force, for people and scripts: no secret in it."""
        values: dict[str, Any] = {}
        for name in NAMES:
            value = getattr(self.options, name)
            if name == "url" and value:
                value = parse(value).safe
            elif name in ("resp", "grpc"):
                value = str(self.binds.get(name, "off"))
            values[name] = str(value) if isinstance(value, Path) else value
        return values | {"limits": {name: getattr(self.limits, name) for name in LIMITS}}

    def toml(self) -> str:
        """`shown` as a TOML file that could be read again, with where each value is from."""
        shown = self.shown()
        limits = shown.pop("limits")
        lines = [self._line(name, value, name) for name, value in shown.items()]
        lines += ["", "[limits]"]
        lines += [self._line(name, value, f"limits.{name}") for name, value in limits.items()]
        return "\n".join(lines)

    def _line(self, name: str, value: Any, key: str) -> str:
        source = self.sources.get(key, "default")
        if value is None:
            return f"# {name} is not set"
        return f"{f'{name} = {json.dumps(value, ensure_ascii=False)}':<40}  # {source}"


def load(
    flags: Mapping[str, Any], limits: Mapping[str, str], env: Mapping[str, str], file: Path | None
) -> Config:
    """`flags` and `limits` as given on the command line, None for those that were not.

    Raises InvalidArgument, saying where the value came from, or NotSafe.
    """
    told: dict[str, Told] = {}
    for layer in (_from_file(file), _from_env(env), _from_flags(flags, limits)):
        told |= layer
    options = {n: _value(n, told[n], _TYPES[n]) for n in NAMES if n in told}
    limit = {
        n: _value(f"limits.{n}", told[f"limits.{n}"], _LIMIT_TYPES[n])
        for n in LIMITS
        if f"limits.{n}" in told
    }
    config = Config(
        Options(**options), Limits(**limit), {key: one.source for key, one in told.items()}
    )
    if config.limits.request_bytes > config.limits.in_flight_bytes:
        raise InvalidArgument(
            "limits.request_bytes must be at most limits.in_flight_bytes, or the largest requests "
            f"could never be taken: {config.limits.request_bytes} > {config.limits.in_flight_bytes}"
        )
    return config


def _value(name: str, told: Told, kind: Any) -> Any:
    value, source, typed = told
    if name in _PATHS:
        kind = str
    try:
        found = msgspec.convert(value, kind, strict=typed)
    except msgspec.ValidationError as error:
        shown = "" if name == "url" else f", not {value!r}"
        expected = str(error).replace("`", "").split(", got")[0].split(" - at")[0]
        expected = expected[:1].lower() + expected[1:]
        raise InvalidArgument(f"{source} is wrong: {expected}{shown}") from None
    if name in _SECONDS and not 0 <= found < 1e9:
        raise InvalidArgument(f"{source} must be seconds, 0 or more, not {found:g}")
    if name.startswith("limits."):
        least = 0 if name.removeprefix("limits.") in _MAY_BE_ZERO else 1
        if not least <= found < 1e18:
            raise InvalidArgument(f"{source} must be {least} or more, not {found:g}")
    if name == "url" and found:
        parse(found)
    if name in _PATHS:
        return Path(found).expanduser() if found else None
    return found or None if isinstance(found, str) else found


def _from_flags(flags: Mapping[str, Any], limits: Mapping[str, str]) -> dict[str, Told]:
    told = {
        name: Told(value, f"--{name.replace('_', '-')}")
        for name, value in flags.items()
        if value is not None
    }
    for name, text in limits.items():
        _known(name, LIMITS, "--limit")
        told[f"limits.{name}"] = Told(text, f"--limit {name}")
    return told


def _from_env(env: Mapping[str, str]) -> dict[str, Told]:
    """Other programs of Holdfast have HOLDFAST_* variables too; only HOLDFAST_LIMIT_* is all ours."""
    told: dict[str, Told] = {}
    for name in NAMES:
        variable = f"HOLDFAST_{name.upper()}"
        if env.get(variable):
            told[name] = Told(env[variable], variable)
    for variable, text in env.items():
        if variable.startswith("HOLDFAST_LIMIT_") and text:
            name = variable.removeprefix("HOLDFAST_LIMIT_").lower()
            _known(name, LIMITS, variable)
            told[f"limits.{name}"] = Told(text, variable)
    return told


def _from_file(file: Path | None) -> dict[str, Told]:
    if file is None:
        return {}
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"the config file {file} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the config file {file}: {error}") from None
    limits = tables.pop("limits", {})
    if not isinstance(limits, dict):
        raise InvalidArgument(f"limits in {file} must be a table: [limits]")
    told: dict[str, Told] = {}
    for name, value in tables.items():
        _known(name, (*NAMES, "limits"), str(file))
        if name in _PATHS and isinstance(value, str):
            # Beside the file that names them, wherever the server is started.
            value = str(file.parent / Path(value).expanduser())
        told[name] = Told(value, f"{name} in {file}", typed=True)
    for name, value in limits.items():
        _known(name, LIMITS, f"[limits] in {file}")
        told[f"limits.{name}"] = Told(value, f"limits.{name} in {file}", typed=True)
    return told


def _known(name: str, names: tuple[str, ...], where: str) -> None:
    if name in names:
        return
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
    raise InvalidArgument(f"{where}: there is no option {name!r}; {hint}")
