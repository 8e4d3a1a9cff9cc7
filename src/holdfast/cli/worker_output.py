"""What `holdfast worker` shows: a few lines at the start, what goes wrong, and a table at the end."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from holdfast.cli import output
from holdfast.cli.durations import show
from holdfast.errors import FixTheCall, TryAgain, by_code
from holdfast.worker.orders import Config, Counts, Failed, Leaving, Progress, Started
from holdfast.worker.supervisor import Changed, Ended, News, Stopping, status_text

_COLUMNS = ("done", "failed", "retried", "dead", "other")
_MANY = 12


class Shown:
    def __init__(self, config: Config, processes: int, *, json: bool, reload: bool) -> None:
        self._config = config
        self._processes = processes
        self._json = json
        self._reload = reload
        self._began = time.monotonic()
        self._greeted = False
        self._unseen = False

    def hear(self, news: News) -> None:
        try:
            if not self._json:
                self._say(news)
            elif not isinstance(news, Progress):
                body: dict[str, Any] = msgspec.to_builtins(news)
                output.emit({"event": body.pop("type"), **body})
            output.flush()
        except BrokenPipeError:
            self._unseen = True  # work goes on all the same

    def _say(self, news: News) -> None:
        match news:
            case Started() if not self._greeted:
                self._greeted = True
                self._greet(news)
            case Started():
                output.note(f"worker process {news.pid} has started")
            case Failed():
                self._failed(news)
            case Leaving(why="broken"):
                output.note(f"a worker process is replaced: {news.text}", style="yellow")
            case Ended(expected=False):
                how = status_text(news.status)
                output.note(f"worker process {news.pid} ended with {how}", style="yellow")
            case Stopping(now=False):
                limit = show(self._config.deadline)
                output.note(f"stopping; what runs has {limit} (Ctrl-C again: stop now)")
            case Stopping():
                output.note("stopping now")
            case Changed():
                more = f" and {len(news.files) - 3} more" if len(news.files) > 3 else ""
                output.note(f"changed: {', '.join(news.files[:3])}{more}; starting anew")
            case _:
                pass

    def _greet(self, news: Started) -> None:
        output.say(f"{news.target} on {news.server}")
        weighted = len({weight for _, weight in news.queues}) > 1
        queues = ", ".join(f"{name}:{weight}" if weighted else name for name, weight in news.queues)
        output.say(f"  queues  {queues}{' (strictly in this order)' if news.strict else ''}")
        tasks = [f"{name} ({queue})" for name, queue in news.tasks.items()]
        more = f" and {len(tasks) - _MANY} more" if len(tasks) > _MANY else ""
        output.say(f"  tasks   {', '.join(tasks[:_MANY])}{more}")
        each = f", in each of {self._processes} processes" if self._processes > 1 else ""
        output.say(f"  at work, {news.concurrency} at a time{each}; Ctrl-C stops")

    def _failed(self, news: Failed) -> None:
        if news.trace:
            output.note(news.trace, style="")
        kind = by_code(news.code)
        # Else it is the error that the command ends with.
        if self._reload or not issubclass(kind, FixTheCall):
            output.note(f"error: {news.text}", style="bold red")
        if issubclass(kind, TryAgain):
            output.note("trying again")
        elif self._reload:
            output.note("waiting for a file to change")

    def end(self, counts: Counts) -> None:
        """What was done, by task."""
        if self._unseen:
            return
        rows = {task or "(unknown task)": _row(moments) for task, moments in counts.items()}
        seconds = time.monotonic() - self._began
        if self._json:
            output.emit(
                {
                    "event": "stopped",
                    "pid": os.getpid(),
                    "seconds": round(seconds, 3),
                    "tasks": rows,
                }
            )
            return
        if not rows:
            if self._greeted:
                output.note(f"nothing was done in {show(seconds)}")
            return
        table = output.table("task", *_COLUMNS, right=_COLUMNS)
        for task, row in rows.items():
            table.add_row(task, *(f"{row[column]:,}" for column in _COLUMNS))
        output.show(table)
        done = sum(row["done"] for row in rows.values())
        output.note(f"{output.several(done, 'task')} done in {show(seconds)}")


def _row(moments: dict[str, int]) -> dict[str, int]:
    """`failed` counts attempts: those tried again and the last ones."""
    known = ("succeeded", "retried", "buried")
    done, retried, dead = (moments.get(moment, 0) for moment in known)
    other = sum(count for moment, count in moments.items() if moment not in known)
    return {
        "done": done,
        "failed": retried + dead,
        "retried": retried,
        "dead": dead,
        "other": other,
    }
