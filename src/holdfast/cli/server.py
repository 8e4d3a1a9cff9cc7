"""holdfast up, down: the embedded server, kept running or stopped."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from holdfast import embedded
from holdfast.cli import output
from holdfast.cli.options import Json


def up(
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="durable|fast",
            help="durable: on disk before each answer; fast: once a second.",
            show_default="durable",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Start the embedded server and keep it running until `holdfast down`.

    Without it the server runs only while somebody uses it: handy, but each command then starts it
    anew. The data stays in HOLDFAST_HOME, or ./.holdfast, either way.

    \b
    holdfast up
    holdfast up --durability fast
    """
    before = embedded.status()
    now = embedded.up(durability=durability)
    if json:
        output.emit(
            {
                "running": now.running,
                "started": not before.running,
                "home": str(now.home),
                "url": now.url,
                "pid": now.pid,
                "durability": now.durability,
            }
        )
    else:
        verb = "runs already" if before.running else "runs"
        output.say(f"the embedded server {verb} in {now.home} ({now.durability}, pid {now.pid})")
        output.say(f"  for any Redis client:  {now.url}")
        output.note("it stays until `holdfast down`")
    _mention_url()


def down(json: Json = False) -> None:
    """Stop the embedded server, whoever uses it; the messages stay on disk.

    \b
    holdfast down
    """
    home = embedded.home()
    was = embedded.down()
    if json:
        output.emit({"stopped": was, "home": str(home)})
    elif was:
        output.say(f"the embedded server in {home} is stopped; its messages are on disk")
    else:
        output.say(f"no embedded server was running in {home}")
    _mention_url()


def _mention_url() -> None:
    if os.environ.get("HOLDFAST_URL"):
        output.note(
            "HOLDFAST_URL is set: the other commands use that server, not the embedded one",
            style="yellow",
        )
