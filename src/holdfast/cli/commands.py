"""Which commands there are, by panel of the help.

A command is imported and built when somebody asks for it: to build all of them takes longer than what
most of them do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

# module:function below holdfast.cli; the function's name is the command's. `module:app` is a group, called
# as its module is.
PANELS: dict[str, tuple[str, ...]] = {
    "Messages": (
        "send:send",
        "receive:receive",
        "settle:ack",
        "settle:nack",
        "settle:extend",
        "settle:recover",
    ),
    "Topics": (
        "publish:publish",
        "observe:observe",
        "topics:subscribe",
        "topics:unsubscribe",
        "topics:topics",
        "topics:subscriptions",
    ),
    "Tasks": ("worker:worker", "top:top", "crons:crons"),
    "Look": ("inspect:inspect", "stats:stats", "queues:queues", "events:events"),
    "Keep house": (
        "configure:configure",
        "redrive:redrive",
        "queues:purge",
        "queues:delete",
        "queues:pause",
        "queues:resume",
    ),
    "Server": (
        "serve:serve",
        "doctor:doctor",
        "server:up",
        "server:down",
        "demo.command:demo",
        "token:app",
    ),
    "Pipeline": ("spark:app", "reservations:app"),
}


class Commands(Mapping[str, Any]):
    """Name to command, as typer's group keeps them, but each one built at its first use."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[str, str]] = {}
        for panel, places in PANELS.items():
            for place in places:
                module, _, name = place.partition(":")
                self._where[module if name == "app" else name] = (panel, place)
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, *self._where[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def _build(name: str, panel: str, place: str) -> Any:
    module, _, function = place.partition(":")
    found = getattr(import_module(f"holdfast.cli.{module}"), function)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
        alone.command()(found)
        found = alone
    built: Any = typer.main.get_command(found)
    built.name, built.rich_help_panel = name, panel
    return built
