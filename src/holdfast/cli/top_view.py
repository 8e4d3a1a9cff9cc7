"""How `holdfast top` looks: a line of totals, then workers, what they run, and queues.

Made for the size of the terminal: columns that can be spared go first where it is narrow, rows where it
is low, and each table says how many it leaves out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli import durations, output
from holdfast.cli.top_frame import Frame, QueueSeen, WorkerSeen
from holdfast.message import STATES
from holdfast.worker.presence import Running

T = TypeVar("T")

_WIDE, _NARROW, _LOW = 100, 70, 18
# Lines of a table besides its rows: above the head, the head, the line below it.
_AROUND = 3
_LEAST = 2
_STEADY = 6
_GAP = 3


def picture(frame: Frame, server: str, width: int, height: int | None, hint: str = "") -> Group:
    """The whole view; `height` None: as high as it gets."""
    lines: list[RenderableType] = [_totals(frame, server)]
    lines += [_warning(worker) for worker in frame.workers if worker.now.stalled]
    # In a low window what runs goes first: the numbers of each worker and queue say more.
    running = frame.running if height is None or height >= _LOW else []
    needs = [len(frame.workers), len(running), len(frame.queues)]
    rows = needs
    if height is not None:
        taken = len(lines) + bool(hint) + sum(_AROUND for n in needs if n)
        taken += 0 if frame.workers else 2
        rows = shares(needs, max(height - taken, 0))
    if frame.workers:
        lines += [Text(), _workers(frame.workers, rows[0], width)]
    else:
        lines += [Text(), Text("No worker is running. Start one: holdfast worker MODULE:APP")]
    if running:
        lines += [Text(), _running(running, rows[1], width)]
    if frame.queues:
        lines += [Text(), _queues(frame, rows[2], width)]
    if hint:
        lines.append(Text(hint, "dim"))
    return Group(*lines)


def shares(needs: Sequence[int], room: int) -> list[int]:
    """How many rows each gets: small tables what they need, the others equal parts of what is left."""
    given = [0] * len(needs)
    for left, i in zip(
        range(len(needs), 0, -1), sorted(range(len(needs)), key=lambda i: needs[i]), strict=True
    ):
        given[i] = min(needs[i], max(room // left, _LEAST))
        room = max(room - given[i], 0)
    return given


def _totals(frame: Frame, server: str) -> Text:
    t = frame.totals
    return Text.assemble(
        ("holdfast top  ", "bold"),
        (output.several(int(t["workers"]), "worker"), ""),
        (f", {t['busy']:,} of {t['concurrency']:,} places busy", ""),
        "  ",
        (f"{_rate(t['tasks'])} tasks/s", "green" if t["tasks"] else "dim"),
        "  ",
        (f"{_rate(t['failures'])} failures/s", "red" if t["failures"] else "dim"),
        (f"  {server}", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _warning(worker: WorkerSeen) -> Text:
    now = worker.now
    spent = durations.show(now.stalled)
    return _word(f"{now.name}: its event loop has been blocked for {spent}", "bold red")


def _workers(workers: Sequence[WorkerSeen], most: int, width: int) -> Table:
    wide, narrow = width >= _WIDE, width < _NARROW
    shown, more = cut(workers, most)
    longest = _longest(width)
    columns: dict[str, list[Text]] = {
        "worker": [_name(worker, longest) for worker in shown],
        "queues": [_served(w.now.queues, strict=w.now.strict) for w in shown],
        "busy": [_busy(worker) for worker in shown],
        "waiting": [_number(w.now.waiting) for w in shown],
        "tasks/s": [_speed(w.tasks, "green") for w in shown],
        "failures/s": [_speed(w.failures, "red") for w in shown],
        "cpu": [Text(f"{w.now.cpu:.0%}", "" if w.now.cpu >= 0.01 else "dim") for w in shown],
        "memory": [Text(_size(w.now.rss)) for w in shown],
        "up": [Text(durations.show(max(time.time() - w.now.started_at, 0))) for w in shown],
    }
    spared = () if wide else ("waiting", "up", "queues", "memory") if narrow else ("waiting", "up")
    for name in spared:
        del columns[name]
    table = _table(*columns, right=tuple(c for c in columns if c not in ("worker", "queues")))
    if "queues" in columns:
        # They give way first; the name says which worker it is.
        wants = {name: max(len(name), _STEADY, *map(len, columns[name])) for name in columns}
        left = width - sum(wants.values()) + wants["queues"] - _GAP * (len(columns) - 1)
        table.columns[1].width = max(min(left, wants["queues"]), _STEADY)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return _and_more(table, more)


def _name(worker: WorkerSeen, most: int) -> Text:
    now = worker.now
    name = _word(_middle(now.name, most), "red" if now.stalled else "")
    return name.append(" (stopping)", "yellow") if now.stopping else name


def _busy(worker: WorkerSeen) -> Text:
    now = worker.now
    full = now.busy >= now.concurrency
    return Text(f"{now.busy:,}/{now.concurrency:,}", "yellow" if full else "")


def _served(queues: dict[str, int], *, strict: bool) -> Text:
    plain = len(set(queues.values())) <= 1
    names = [name if plain else f"{name}:{weight}" for name, weight in queues.items()]
    return _word((" > " if strict else ", ").join(names))


def _running(running: Sequence[tuple[WorkerSeen, Running]], most: int, width: int) -> Table:
    wide, narrow = width >= _WIDE, width < _NARROW
    extra = ["id", "queue"] if wide else [] if narrow else ["id"]
    head = ("running", *extra, "attempt", "for", "worker")
    table = _table(*head, right=("attempt", "for"))
    unnamed = sum({id(w): w.now.busy - len(w.now.running) for w, _ in running}.values())
    shown, more = cut(running, most)
    for worker, run in shown:
        table.add_row(
            _word(run.task),
            *(_word(getattr(run, name), "dim") for name in extra),
            Text(f"{run.attempt}", "yellow" if run.attempt > 1 else "dim"),
            Text(durations.show(run.seconds)),
            _word(_middle(worker.now.name, _longest(width)), "dim"),
        )
    return _and_more(table, more + unnamed)


def _queues(frame: Frame, most: int, width: int) -> RenderableType:
    states = [s for s in STATES if s != "reserved" or any(q.now.reserved for q in frame.queues)]
    if narrow := width < _NARROW:
        states.remove("delayed")
    numbers = (*states, "in/s", "out/s", *([] if narrow else ["oldest"]))
    table = _table("queue", *numbers, right=numbers)
    queues: Sequence[QueueSeen] = frame.queues
    if len(queues) > most:
        queues = sorted(queues, key=lambda q: not q.active)
    shown, more = cut(queues, most)
    for queue in shown:
        name = _word(queue.name)
        if queue.now.paused:
            name.append(" (paused)", "yellow")
        cells = [_number(getattr(queue.now, s), output.STYLES[s]) for s in states]
        age = durations.show(queue.now.oldest_age) if queue.now.oldest_ready else ""
        cells += [_speed(queue.arriving), _speed(queue.leaving)]
        table.add_row(name, *cells, *([] if narrow else [Text(age, "dim")]))
    made = _and_more(table, more + frame.unseen_queues)
    if not frame.unreadable:
        return made
    n = len(frame.unreadable)
    return Group(
        made, Text(f"{output.several(n, 'queue')} cannot be read: holdfast stats", "yellow")
    )


# ---- small things -------------------------------------------------------------------------


def _table(*columns: str, right: tuple[str, ...]) -> Table:
    table = output.table(*columns, right=right)
    # Lines are dear here.
    table.show_edge = False
    for column in table.columns:
        # Names give way, numbers do not; and they do not move about while they change.
        if column.header in right:
            column.min_width = max(len(str(column.header)), _STEADY)
        else:
            column.no_wrap = False
    return table


def _word(text: str, style: str = "") -> Text:
    """What somebody named: on one line, and nothing of it is taken for more than text."""
    return Text(output.preview(text.encode()), style, no_wrap=True, overflow="ellipsis")


def cut(rows: Sequence[T], most: int) -> tuple[Sequence[T], int]:
    """Those that fit, and how many do not; saying so takes a row, too."""
    if len(rows) <= most:
        return rows, 0
    fit = max(most - 1, 1)
    return rows[:fit], len(rows) - fit


def _and_more(table: Table, n: int) -> Table:
    if n:
        table.add_row(Text(f"… {n:,} more", "dim"))
    return table


def _number(n: int, style: str = "") -> Text:
    return Text(f"{n:,}", style if n else "dim")


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def _speed(rate: float, style: str = "") -> Text:
    return Text(_rate(rate), style if rate else "dim")


def _size(n: float) -> str:
    for unit in ("kB", "MB", "GB"):
        n /= 1000
        if n < 1000 or unit == "GB":
            return f"{n:.3g} {unit}" if n < 1000 else f"{n:,.0f} {unit}"
    return ""


def _longest(width: int) -> int:
    """Of a worker's name."""
    return max(width // 5, 14)


def _middle(text: str, most: int) -> str:
    """Both ends of a name: a host begins alike, a process ends in its number."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[-tail:]}"
