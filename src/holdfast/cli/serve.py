"""holdfast serve: the server, in the foreground, until it is told to stop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import output
from holdfast.cli.options import Json, Url, pairs


def _option(help: str, metavar: str | None = None, show: str | bool = False) -> Any:
    return typer.Option(help=help, metavar=metavar, show_default=show)


def serve(
    resp: Annotated[
        str | None,
        _option("Where Redis clients connect; off for nowhere.", "HOST:PORT", "127.0.0.1:6399"),
    ] = None,
    grpc: Annotated[
        str | None,
        _option("Where gRPC clients connect; off for nowhere.", "HOST:PORT", "127.0.0.1:6400"),
    ] = None,
    url: Url = None,
    config: Annotated[Path | None, _option("Options in TOML; or HOLDFAST_CONFIG.", "FILE")] = None,
    token_file: Annotated[
        Path | None, _option("Who may enter; `holdfast token` writes it.", "FILE")
    ] = None,
    tls_cert: Annotated[Path | None, _option("The server's certificate, PEM.", "FILE")] = None,
    tls_key: Annotated[Path | None, _option("Its key, PEM, no passphrase.", "FILE")] = None,
    tls_client_ca: Annotated[
        Path | None, _option("Clients must show a certificate of this CA.", "FILE")
    ] = None,
    insecure: Annotated[
        bool | None,
        _option("Take tokens in clear text from other machines."),
    ] = None,
    reflection: Annotated[bool | None, _option("Let gRPC tools ask what the services are.")] = None,
    grace: Annotated[
        str | None, _option("From SIGTERM to the end, at most.", "SECONDS", "20")
    ] = None,
    wait_for_server: Annotated[
        str | None, _option("How long to wait at start for Valkey.", "SECONDS", "10")
    ] = None,
    retry_for: Annotated[
        str | None,
        _option("How long a call waits out a Valkey that is away.", "SECONDS", "5"),
    ] = None,
    replicas: Annotated[
        str | None, _option("Replicas that must have each message.", "N", "0")
    ] = None,
    check: Annotated[
        str | None, _option("If Valkey may lose messages.", "warn|refuse|off", "warn")
    ] = None,
    reap_every: Annotated[
        str | None,
        _option("How often queues that nobody receives from are tended; 0: never.", "SECONDS", "1"),
    ] = None,
    limit: Annotated[
        list[str] | None,
        _option("A limit, e.g. connections=500; repeat it. docs/server.md has them.", "NAME=VALUE"),
    ] = None,
    log_format: Annotated[str | None, _option("On stderr.", "text|json", "text")] = None,
    log_level: Annotated[str | None, _option("", "debug|info|warning|error", "info")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show what would be in force, and exit.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve queues and topics to any Redis client and over gRPC, until SIGTERM or Ctrl-C.

    Each option is also a variable (HOLDFAST_GRACE=5) and a key of the config file (grace = 5).
    Flags win over variables, those over the file. When all doors are open a line on stdout says
    where; logs go to stderr. SIGHUP reads the token file again.

    \b
    holdfast serve
    holdfast serve --resp 127.0.0.1:0 --grpc off --json
    holdfast serve --resp 0.0.0.0:6399 --token-file tokens.toml --tls-cert s.pem --tls-key s.key
    holdfast serve --config server.toml --limit connections=500 --print-config
    """
    given = locals()
    # Here, since no other command should wait for these to be imported.
    from holdfast.server import config as configuration
    from holdfast.server import process

    file = config or os.environ.get("HOLDFAST_CONFIG") or None
    flags = {n: str(v) if isinstance(v, Path) else v for n, v in given.items()}
    flags = {name: flags[name] for name in configuration.NAMES}
    if url == os.environ.get("HOLDFAST_URL"):
        flags["url"] = None  # the option reads that variable itself; here it is a layer of its own
    loaded = configuration.load(
        flags, pairs(limit, "--limit"), os.environ, Path(file) if file else None
    )
    if print_config:
        if json:
            output.emit(loaded.shown())
        else:
            output.say(loaded.toml())
        return

    def ready(addresses: dict[str, str]) -> None:
        if json:
            output.emit(
                {"ready": True, **addresses, "tls": loaded.tls is not None, "pid": os.getpid()}
            )
        else:
            doors = ", ".join(f"{name} {address}" for name, address in addresses.items())
            output.say(f"holdfast is ready: {doors}")
        output.flush()

    process.run(loaded, ready)
