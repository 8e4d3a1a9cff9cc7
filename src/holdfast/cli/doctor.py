"""holdfast doctor: what the server really guarantees, and how to make it guarantee more."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from redis.exceptions import RedisError
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.text import Text

import holdfast
from holdfast import embedded
from holdfast.cli import output, unended
from holdfast.cli.options import Json, Url, connected
from holdfast.client import failures
from holdfast.client._sync.client import Client
from holdfast.client._sync.node import Node
from holdfast.client.safety import Finding
from holdfast.engine import library
from holdfast.engine.keys import owner
from holdfast.errors import HoldfastError, InvalidArgument

if TYPE_CHECKING:
    from holdfast.embedded.damage import Cut

_STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}


class _Place(NamedTuple):
    kind: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind} server {'in' if self.kind == 'embedded' else 'at'} {self.where}"


def doctor(
    url: Url = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Mend the append-only file of the embedded server after a power cut: cut it where it is "
            "whole, keep a copy, and tell what is gone.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Examine the server: may it lose messages, and what to do about it.

    ok: fine. warn: it may lose messages in a crash. bad: it may lose or refuse them in normal
    running. The exit status is 1 if anything is bad.

    \b
    holdfast doctor
    holdfast doctor --url redis://localhost:6379
    holdfast doctor --repair
    """
    repaired = _repair(url, json) if repair else None
    # No patience, and no warnings: saying what is wrong is what this is for.
    with connected(url, retry_for=0.5, check="off") as client:
        client.ping()
        place = _place(client, url)
        try:
            found = {name: [*each] for name, each in client.examine().items()}
            for node in client.transport.routes.primaries():
                found[str(node)].append(_functions(node))
            queues = _queues(client)
        except RedisError as error:
            raise failures.translated(error) from error
    bad = any(finding.level == "bad" for each in found.values() for finding in each)
    if json:
        output.emit(
            {
                "ok": not bad,
                "holdfast": holdfast.__version__,
                "server": place.kind,
                "address": place.where,
                **({} if repaired is None else {"repair": repaired}),
                "nodes": [
                    {"node": node, "findings": [asdict(f) for f in each]}
                    for node, each in found.items()
                ],
                "queues": [asdict(finding) for finding in queues],
            }
        )
    else:
        _show(place, found)
        if queues:
            output.say("\nqueues")
            _table(queues)
        worst = "something is bad: see above" if bad else "nothing is bad"
        output.note(worst, style="bold red" if bad else "green")
    if bad:
        raise typer.Exit(1)


def _repair(url: str | None, json: bool) -> dict[str, Any]:
    """What was done, as it is told to scripts; people are told here. Whether the server starts again is seen
    by the examination that follows."""
    from holdfast.embedded import damage  # needed by few

    if url is not None:
        raise InvalidArgument(
            "--repair is for the embedded server, and a URL is given (HOLDFAST_URL?)"
        )
    with Progress(
        *(TextColumn("{task.description}"), BarColumn(), DownloadColumn()),
        console=output.console(stderr=True),
        disable=json or not sys.stderr.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task("reading", total=damage.bytes_to_read())
        done = damage.repair(progress=lambda more: bar.advance(task, more))
    cuts = [_told(cut) for cut in done.cuts]
    if not json:
        if done.copy is None:
            output.say(f"nothing to repair in {done.home}")
        for cut in cuts:
            output.say(_sentence(cut))
        if done.copy is not None:
            output.say(f"everything is kept as it was in {done.copy}")
    copy = None if done.copy is None else str(done.copy)
    return {"home": str(done.home), "copy": copy, "cuts": cuts}


def _told(cut: Cut) -> dict[str, Any]:
    queues: Counter[str] = Counter()
    for key, commands in cut.lost.keys.items():
        queues[owner(key) or output.preview(key)] += commands
    return {
        "file": cut.file,
        "kept_bytes": cut.kept,
        "cut_bytes": cut.lost.size,
        "calls": cut.lost.calls,
        "unreadable_bytes": cut.lost.unreadable,
        "queues": dict(queues.most_common()),
    }


def _sentence(cut: dict[str, Any]) -> str:
    text = (
        f"cut off {cut['file']} behind {cut['kept_bytes']:,} bytes: {cut['cut_bytes']:,} bytes are gone, "
        f"{output.several(cut['calls'], 'call')} among them"
    )
    if cut["unreadable_bytes"]:
        text += f", {cut['unreadable_bytes']:,} bytes of it unreadable"
    if cut["queues"]:
        shown = [f"{name} ({output.several(n, 'command')})" for name, n in cut["queues"].items()]
        more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
        text += f"; they were about {', '.join(shown[:10])}{more}"
    return text


def _place(client: Client, url: str | None) -> _Place:
    if url is None:
        status = embedded.status()
        return _Place("embedded", str(status.home))
    return _Place("remote", client.transport.address.safe)


def _functions(node: Node) -> Finding:
    """The engine's function library on one node."""
    mine = library.version()
    try:
        theirs = node.command("FCALL", f"{library.NAME}_version", 0).decode()
    except RedisError as error:
        if failures.no_function(error):
            return Finding("functions", "ok", f"not loaded yet; the first use loads {mine}")
        fix = "allow FCALL and FUNCTION LOAD to this user"
        reason: HoldfastError = failures.translated(error)
        return Finding("functions", "bad", f"cannot be called: {reason}", fix)
    if library.outdated(theirs):
        return Finding("functions", "ok", f"{theirs} is loaded; the next use replaces it by {mine}")
    other = "" if theirs == mine else f", newer than this client's {mine}: fine"
    return Finding("functions", "ok", f"{library.NAME} {theirs} is loaded{other}")


def _queues(client: Client) -> list[Finding]:
    """Queues that need somebody. None where the functions are not there yet: the doctor loads nothing."""
    try:
        for node in client.transport.routes.primaries():
            if library.outdated(node.command("FCALL", f"{library.NAME}_version", 0).decode()):
                return []
    except RedisError:
        return []
    stats, unreadable = client.all_stats()
    other = "another program uses its keys; delete or rename them"
    found = [Finding("keys", "warn", f"{n!r}: {why}", other) for n, why in unreadable.items()]
    for name, says in unended.found(client, stats).items():
        found.append(Finding("leases", "warn", says, unended.remedy(name)))
    return found


def _show(place: _Place, found: dict[str, list[Finding]]) -> None:
    output.say(f"holdfast {holdfast.__version__}, {place}")
    for node, findings in found.items():
        if len(found) > 1:
            output.say(f"\nnode {node}")
        _table(findings)


def _table(findings: list[Finding]) -> None:
    made = output.table("", "what", "finding", "to fix it", fold=("finding", "to fix it"))
    for finding in findings:
        level = Text(finding.level, _STYLES[finding.level])
        made.add_row(level, Text(finding.topic), Text(finding.says), Text(finding.fix))
    output.show(made)
