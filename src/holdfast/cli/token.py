"""holdfast token: who may enter a server, in a file that keeps hashes only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import output
from holdfast.cli.options import Json
from holdfast.errors import InvalidArgument

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Who may enter a server, and what they may do there.",
)

File = Annotated[
    Path,
    typer.Option("--file", metavar="FILE", envvar="HOLDFAST_TOKEN_FILE", help="The token file."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.")]
_DEFAULT = Path("tokens.toml")
_RELOAD = "a running server reads the file again on SIGHUP"


@app.command()
def new(
    name: Name,
    allow: Annotated[
        list[str],
        typer.Option(
            metavar='"VERBS KIND:NAME"',
            help="A right: verbs or groups (produce, consume, look, manage, all) on queue:NAME, "
            "topic:NAME or *:NAME; NAME may end with *. Repeat it.",
        ),
    ],
    certificate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose TLS client certificate enters as this one too."),
    ] = None,
    file: File = _DEFAULT,
    json: Json = False,
) -> None:
    """Make a token. Its secret is shown now and never again; the file keeps only its hash.

    \b
    holdfast token new shop --allow "send queue:orders.*"
    holdfast token new worker --allow "consume queue:orders.*" --allow "stats *:*"
    holdfast token new admin --allow "all *:*" --file /etc/holdfast/tokens.toml
    """
    from holdfast.server import tokens

    token, secret = tokens.new(name, allow, certificate=certificate)
    with tokens.changing(file) as found:
        if any(other.name == name for other in found):
            raise InvalidArgument(
                f"{file} has a token {name!r} already; `holdfast token revoke {name}` it first"
            )
        if certificate is not None and any(t.certificate == certificate for t in found):
            raise InvalidArgument(f"another token in {file} names the certificate {certificate!r}")
        found.append(token)
    if json:
        output.emit({"name": name, "secret": secret, "allow": list(allow), "file": str(file)})
    else:
        # Alone on stdout, so that it can go straight into a file or a secret store.
        output.say(secret)
        output.note(f"the secret of {name!r}, shown this once; {_RELOAD}")


@app.command("list")
def list_(file: File = _DEFAULT, json: Json = False) -> None:
    """Show the tokens: names and rights; there are no secrets to show."""
    from holdfast.server import tokens

    found = tokens.read(file)
    if json:
        for token in found:
            output.emit(
                {
                    "name": token.name,
                    "allow": list(token.allow),
                    "certificate": token.certificate,
                    "secret": token.digest is not None,
                }
            )
        return
    table = output.table("name", "allows", "certificate", fold=("allows",))
    for token in found:
        table.add_row(token.name, "\n".join(token.allow), token.certificate or "")
    output.show(table)
    if warning := tokens.exposed(file):
        output.note(warning, style="yellow")


@app.command()
def revoke(name: Name, file: File = _DEFAULT, json: Json = False) -> None:
    """Take a token out: who shows it from now on is turned away."""
    from holdfast.server import tokens

    if not file.exists():
        tokens.read(file)  # says that it is not there
    with tokens.changing(file) as found:
        kept = [token for token in found if token.name != name]
        if len(kept) == len(found):
            known = ", ".join(sorted(token.name for token in found)) or "none"
            raise InvalidArgument(f"there is no token {name!r} in {file}; there are: {known}")
        found[:] = kept
    if json:
        output.emit({"revoked": name, "file": str(file)})
    else:
        output.say(f"{name!r} is revoked; {_RELOAD}, and RESP connections open by then stay open")
