"""holdfast send: bodies from the command line, from stdin, or one per line from a stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NoReturn

import typer
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn

from holdfast.cli import durations, jsonl, lines, output
from holdfast.cli.lines import Line
from holdfast.cli.options import Json, QueueName, Url, connected, pairs
from holdfast.engine import calls
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.message import MessageId, Outgoing

Bodies = Annotated[
    list[str] | None,
    typer.Argument(metavar="BODY…", help="A message each; - is all of stdin.", show_default=False),
]
ByLine = Annotated[
    bool, typer.Option("--lines", help="Each line of stdin (or --file) is a message.")
]
ByJson = Annotated[
    bool, typer.Option("--jsonl", help='Each line is an object: {"body": …, "delay": "5m", …}.')
]
File = Annotated[Path | None, typer.Option("--file", "-f", help="Read this file instead of stdin.")]
Delay = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Ready only after so long: 30s, 5m, 2h.")
]
Due = Annotated[
    str | None, typer.Option(metavar="TIME", help="Ready only at this time (ISO 8601).")
]
Priority = Annotated[int, typer.Option(metavar="0-9", help="Higher goes first.")]
Group = Annotated[
    str | None, typer.Option(metavar="NAME", help="One at a time, in order, within a group.")
]
DedupId = Annotated[
    str | None, typer.Option(metavar="NAME", help="Send only once within the dedup window.")
]
Ttl = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Gone if nobody took it for so long.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="Repeatable."),
]


def send(
    queue: QueueName,
    body: Bodies = None,
    by_line: ByLine = False,
    by_json: ByJson = False,
    file: File = None,
    delay: Delay = None,
    due: Due = None,
    priority: Priority = 0,
    group: Group = None,
    dedup_id: DedupId = None,
    ttl: Ttl = None,
    attribute: Attributes = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Store messages; once an id is printed, that message is held until somebody acks it.

    \b
    holdfast send orders "hello"                     one message
    holdfast send orders a b c --priority 9          three, ahead of the others
    holdfast send orders later --delay 5m            not before five minutes have passed
    holdfast send orders pay --dedup-id invoice-17   at most once
    holdfast send orders -- -5                       a body that begins with a dash
    holdfast send photos - < photo.jpg               all of stdin, as it is
    holdfast send logs --lines --file app.log        each line a message
    tail -f app.log | holdfast send logs --lines     the same, as they come
    holdfast send orders --jsonl < orders.jsonl      each with its own settings

    A JSON line may have body (text or any JSON) or body_base64, delay, due, priority, attributes,
    group, dedup_id and ttl; the options given here are for lines that say nothing else.
    """
    common = outgoing(delay, due, priority, attribute, group, dedup_id, ttl)
    words = Words(common, body, by_line, by_json, file)
    with words.opened(), connected(url) as client:
        words.go(queue, client.queue(queue).send_many, "sent", json)


def outgoing(
    delay: str | None,
    due: str | None,
    priority: int,
    attribute: list[str] | None,
    group: str | None,
    dedup_id: str | None,
    ttl: str | None,
) -> Outgoing:
    """What the options say of every message."""
    return Outgoing(
        b"",
        delay=durations.optional_seconds(delay, "--delay"),
        due=durations.moment(due, "--due") if due is not None else None,
        priority=priority,
        attributes=pairs(attribute, "--attribute") or None,
        group=group,
        dedup_id=dedup_id,
        ttl=durations.optional_seconds(ttl, "--ttl"),
    )


Sending = Callable[[Sequence[Any]], list[MessageId]]


class Words:
    """What was asked for on the command line, checked before anything is connected to."""

    def __init__(
        self,
        common: Outgoing,
        body: list[str] | None,
        by_line: bool,
        by_json: bool,
        file: Path | None,
    ) -> None:
        _check(common, body, by_line, by_json, file)
        self._common = common
        self._by_line, self._by_json = by_line, by_json
        self._file = file
        self._stream: BinaryIO | None = None
        self._messages: list[Outgoing] = []
        if not (by_line or by_json):
            self._messages = [replace(common, body=b) for b in _bodies(body, file)]

    @contextmanager
    def opened(self) -> Iterator[None]:
        """What is to be read line by line can be read, or nobody is asked to connect."""
        if not (self._by_line or self._by_json):
            yield
            return
        with lines.opened(self._file) as self._stream:
            yield

    def go(self, name: str, send: Sending, verb: str, as_json: bool) -> None:
        """Send to a queue, or publish on a topic, of that name."""
        if self._stream is None:
            _print(send(self._messages), as_json)
            return
        going = _Stream(name, send, verb, self._common, self._by_json, as_json)
        going.run(lines.batches(self._stream))


def _check(
    common: Outgoing, body: list[str] | None, by_line: bool, by_json: bool, file: Path | None
) -> None:
    if by_line and by_json:
        raise InvalidArgument("give --lines or --jsonl, not both")
    if body and (by_line or by_json or file):
        raise InvalidArgument("give bodies, or read them from stdin or --file, not both")
    if common.dedup_id is not None and (by_line or by_json or len(body or ()) > 1):
        raise InvalidArgument(
            "--dedup-id is for one message: with several, all but the first would be duplicates; "
            "use --jsonl, where each line can have its own dedup_id"
        )
    calls.pack(common)  # priority, names and times are right, before anything is read


def _bodies(given: list[str] | None, file: Path | None) -> list[bytes]:
    if given:
        # Arguments that are not text came in as surrogates, and go out as the bytes they were.
        return [sys.stdin.buffer.read() if b == "-" else os.fsencode(b) for b in given]
    if file is None and sys.stdin.isatty():
        raise InvalidArgument("nothing to send: give a BODY, or pipe one in")
    with lines.opened(file) as stream:
        found = stream.read()
    if not found and file is None:
        raise InvalidArgument('nothing to send: stdin was empty; for an empty body give ""')
    return [found]


def _print(ids: Iterable[MessageId], as_json: bool) -> None:
    for id_ in ids:
        if as_json:
            output.emit({"id": str(id_), "duplicate": id_.duplicate})
        else:
            output.say(f"duplicate of {id_}" if id_.duplicate else str(id_))


class _Stream:
    """Sends batches of lines and keeps count, so that whatever ends it can be told exactly."""

    def __init__(
        self,
        name: str,
        send: Sending,
        verb: str,
        common: Outgoing,
        by_json: bool,
        as_json: bool,
    ) -> None:
        self._name = name
        self._send_many = send
        self._verb = verb
        self._as_json = as_json
        self._make = partial(_from_json if by_json else _from_text, common)
        self.sent = self.duplicates = self._under_way = 0

    def run(self, found: Iterable[list[Line]]) -> None:
        try:
            with _progress() as (bar, task):
                for batch in found:
                    self._send(batch)
                    bar.update(task, completed=self.sent + self.duplicates)
        except HoldfastError as error:
            self._explain(error)
        except KeyboardInterrupt:
            output.note(f"interrupted; {self._so_far()} before that{self._unknown()}")
            raise
        if not self._as_json:
            output.say(self._so_far())

    def _send(self, batch: list[Line]) -> None:
        messages: list[Any] = []
        for line in batch:
            try:
                made = self._make(line.text)
                if made is not None:
                    messages.append(made)
            except InvalidArgument as error:
                self._deliver(messages)
                raise InvalidArgument(f"line {line.number}: {error}") from error
        self._deliver(messages)

    def _deliver(self, messages: Sequence[Any]) -> None:
        self._under_way = len(messages)
        ids = self._send_many(messages)
        self._under_way = 0
        fresh = sum(not id_.duplicate for id_ in ids)
        self.sent += fresh
        self.duplicates += len(ids) - fresh
        if self._as_json:
            _print(ids, as_json=True)
            output.flush()

    def _so_far(self) -> str:
        twice = f" ({self.duplicates:,} more were duplicates)" if self.duplicates else ""
        return f"{self._verb} {output.several(self.sent, 'message')} to {self._name!r}{twice}"

    def _unknown(self) -> str:
        if not self._under_way:
            return ""
        return f"; {self._under_way:,} more had been sent without an answer yet, and may be there"

    def _explain(self, error: HoldfastError) -> NoReturn:
        raise type(error)(f"{error}; {self._so_far()} before that") from error


def _from_text(common: Outgoing, line: bytes) -> Any:
    # Bytes alone take the short way.
    return line if common == Outgoing(b"") else replace(common, body=line)


def _from_json(common: Outgoing, line: bytes) -> Outgoing | None:
    if not line.strip():
        return None
    message = jsonl.outgoing(line, common)
    calls.pack(message)  # so that a complaint can name the line
    return message


@contextmanager
def _progress() -> Iterator[tuple[Progress, TaskID]]:
    """How many went so far, on stderr, if that is a terminal."""
    console = output.console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} messages"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        yield bar, bar.add_task("sending")
