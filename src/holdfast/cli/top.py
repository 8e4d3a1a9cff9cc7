"""holdfast top: workers, what each runs, and queues, live."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.cli import output
from holdfast.cli.options import Json, Url, connected
from holdfast.cli.top_frame import Frame, Looking
from holdfast.cli.top_view import picture
from holdfast.errors import TryAgain
from holdfast.worker.presence import EVERY

# Long enough for each worker to have written something new.
_MEASURE = EVERY * 1.15


def top(
    once: Annotated[
        bool, typer.Option("--once", help="One look, after measuring rates for a second.")
    ] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Workers, what each of them runs, and queues, live. q or Ctrl-C ends it.

    \b
    holdfast top                       refreshed every second
    holdfast top --once                for a script or a bug report
    holdfast top --json | jq '.totals.failures'
    """
    with connected(url) as client:
        looking, server = Looking(client), client.transport.address.safe
        if once:
            _once(looking, server, as_json=json)
        elif json or not sys.stdout.isatty():
            _stream(looking, server, as_json=json)
        else:
            _live(looking, server)


def _once(looking: Looking, server: str, *, as_json: bool) -> None:
    looking.look()
    time.sleep(_MEASURE)
    _show(looking.look(), server, as_json=as_json)


def _show(frame: Frame, server: str, *, as_json: bool) -> None:
    if as_json:
        output.emit(frame.as_json())
    else:
        console = output.console()
        console.print(picture(frame, server, console.width, None))
    output.flush()


def _stream(looking: Looking, server: str, *, as_json: bool) -> None:
    # The first look has no rates.
    looking.look()
    while True:
        time.sleep(_MEASURE)
        _show(looking.look(), server, as_json=as_json)


def _live(looking: Looking, server: str) -> None:
    console, last = output.console(), Frame()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            problem = ""
            try:
                last = looking.look()
            except TryAgain as error:
                problem = str(error)
            hint = "every second; q or Ctrl-C ends it"
            shown: RenderableType = picture(
                last, server, console.width, console.height - bool(problem), hint
            )
            if problem:
                text = Text(f"{problem}; trying again", "bold red", no_wrap=True)
                shown = Group(text, shown)
            live.update(shown, refresh=True)
            if pressed(EVERY):
                return


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds, or until q is pressed: True."""
    try:
        import termios
        import tty
    except ImportError:  # not on Windows
        yield _pause
        return
    if not sys.stdin.isatty():
        yield _pause
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    try:
        yield _q_within
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _pause(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _q_within(seconds: float) -> bool:
    until, stdin = time.monotonic() + seconds, sys.stdin.fileno()
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([stdin], [], [], left)
        if ready:
            pressed = os.read(stdin, 64)
            # Nothing to be read: the terminal is gone.
            if not pressed or b"q" in pressed.lower():
                return True
    return False
