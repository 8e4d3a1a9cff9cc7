"""The app, and the boundary where errors become one line of text and an exit status.

Everything a command raises ends here, and only here: typed errors carry their own status, typer's
complaints about the command line count as a call to be fixed, Ctrl-C and a closed pipe are quiet.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NoReturn, TextIO

import msgspec
import typer
from rich.text import Text
from typer.core import TyperGroup

import holdfast
from holdfast.cli import output
from holdfast.cli.commands import Commands
from holdfast.cli.options import Json, Url
from holdfast.errors import HoldfastError, HoldfastWarning, InvalidArgument

INTERRUPTED, TERMINATED, BROKEN_PIPE, BUG = 130, 143, 141, 70


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            output.flush()
            return result
        except BrokenPipeError:
            raise typer.Exit(BROKEN_PIPE) from None


app = typer.Typer(
    name="holdfast",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="holdfast COMMAND --help has examples of each.",
)


def _version(wanted: bool) -> None:
    if wanted:
        output.say(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def holdfast_(
    url: Url = None,
    json: Json = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say it and exit.")
    ] = False,
) -> None:
    """A reliable message queue: it holds every message fast until somebody acknowledges it.

    \b
    First steps, with no server to set up (one is started in ./.holdfast):
      holdfast send orders "hello"         store a message
      holdfast receive orders              take it, under a lease
      holdfast ack orders RECEIPT          done with it
      holdfast stats                       what is where
      holdfast demo                        see it survive crashes

    \b
    Exit status:
       0   done
       1   doctor or demo found something bad; you said no; any other error
       3   the world has moved on: stale receipt, no such queue, message or subscription
       4   receive, observe: there was nothing
      64   the call must be fixed: bad argument, wrong option
      69   the server lacks something, or is not safe
      70   a bug in Holdfast (HOLDFAST_DEBUG=1 shows where)
      75   try again later: server away, queue or server full
      77   the server denies access
     130   Ctrl-C (141: the reader of a pipe went away, 143: terminated)
    """


# ---- the boundary -------------------------------------------------------------------------


def _report(kind: str, text: str, as_json: bool, code: str | None = None) -> None:
    """`error: …` or `warning: …`, on stderr."""
    if as_json:
        body = {"code": code, "message": text} if code else {"message": text}
        print(msgspec.json.encode({kind: body}).decode(), file=sys.stderr)
        return
    style = "bold red" if kind == "error" else "bold yellow"
    line = Text.assemble((f"{kind}: ", style), text)
    output.console(stderr=True).print(line, soft_wrap=True)


def _wants_json(args: Sequence[str]) -> bool:
    """Read off the words themselves: they may be what the error is about."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _complaint(error: Any) -> str:
    """What typer says of a command line, as one sentence, and where to read on."""
    text = " ".join(str(error.format_message()).split()).rstrip(".")
    where = error.ctx.command_path if getattr(error, "ctx", None) else "holdfast"
    said = f"{text[:1].lower()}{text[1:]}".replace(". Did you", "; did you")
    return said if said.endswith("?") else f"{said}; see `{where} --help`"


def _fail(error: Exception, as_json: bool) -> int:
    if isinstance(error, HoldfastError):
        _report("error", str(error), as_json, error.code)
        return error.exit_status
    if type(error).__name__ == "NoArgsIsHelpError":  # it is the help, not a complaint
        print(error)
        return 0
    if hasattr(error, "format_message"):
        _report("error", _complaint(error), as_json, InvalidArgument.code)
        return InvalidArgument.exit_status
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    text = (
        f"{type(error).__name__}: {error}; this is a bug in Holdfast (HOLDFAST_DEBUG=1 shows where)"
    )
    _report("error", text, as_json, "BUG")
    return BUG


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(TERMINATED)


@cache
def _whole_command() -> Any:
    return typer.main.get_command(app)


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    words = list(sys.argv[1:] if args is None else args)
    as_json = _wants_json(words)

    def one_line(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        _report("warning", str(message), as_json)

    with warnings.catch_warnings():
        warnings.simplefilter("once", HoldfastWarning)
        warnings.showwarning = one_line
        try:
            status = _whole_command().main(args=words, prog_name="holdfast", standalone_mode=False)
            return status if isinstance(status, int) else 0
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            if os.environ.get("HOLDFAST_DEBUG"):
                traceback.print_exc()
            return _fail(error, as_json)


def run() -> NoReturn:
    """The `holdfast` command."""
    signal.signal(signal.SIGTERM, _terminated)
    status = main()
    try:
        output.flush()
    except BrokenPipeError:
        status = BROKEN_PIPE
    if status == BROKEN_PIPE:
        # Python flushes once more on its way out, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


if __name__ == "__main__":
    run()
