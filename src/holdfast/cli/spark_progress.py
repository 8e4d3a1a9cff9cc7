"""How a job gets on: one live line on a terminal, a line per batch elsewhere, JSON lines for scripts.

Lines for people go to stderr; what can be piped on, JSON and the summary, to stdout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.text import Text

from holdfast.cli import durations, output

if TYPE_CHECKING:
    from holdfast.spark.jobs.running import Batch, Tally
    from holdfast.spark.jobs.work import Done

_PLAIN_SECONDS = 1.0


class Progress:
    """`batch` and `work` are what a job's `watch` wants."""

    def __init__(self, job: str, *, json: bool) -> None:
        self._job = job
        self._json = json
        self._rows: dict[str, int] = {}
        self._told: Sequence[Done] | None = None
        self._spoke = 0.0
        console = output.console(stderr=True)
        live = console.is_terminal and not json
        self._live = Live(console=console, refresh_per_second=5, transient=True) if live else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._live.update(Text(f"{self._job}  starting …", "dim"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def batch(self, batch: Batch) -> None:
        total = self._rows[batch.source] = self._rows.get(batch.source, 0) + batch.rows
        if self._json:
            output.emit(
                {
                    "job": self._job,
                    "source": batch.source,
                    "batch": batch.number,
                    "rows": batch.rows,
                    "seconds": round(batch.seconds, 3),
                    "rows_per_second": round(batch.rate),
                    "backlog": batch.backlog,
                    **batch.counts,
                }
            )
            output.flush()
            return
        parts = [
            f"{self._job}  {batch.source}  batch {batch.number}",
            output.several(batch.rows, "row"),
            f"{batch.rate:,.0f} rows/s",
            *(f"{count:,} {what}" for what, count in batch.counts.items()),
        ]
        if batch.backlog is not None:
            parts.append(f"{batch.backlog:,} waiting")
        self._line("  ".join([*parts, f"{total:,} in all"]))

    def work(self, done: Sequence[Done], slots: int) -> None:
        now = time.monotonic()
        if self._told is None and not any(each.handled or each.failed for each in done):
            return
        if done == self._told or (not self._live and slots and now - self._spoke < _PLAIN_SECONDS):
            return
        self._told, self._spoke = done, now
        if self._json:
            for each in done:
                output.emit({"job": self._job, "slots": slots, **work_json(each)})
            output.flush()
            return
        each_queue = (
            f"{each.queue}: {each.handled:,} handled, {each.failed:,} failed, {each.dead:,} dead"
            for each in done
        )
        self._line(f"{self._job}  {output.several(slots, 'slot')}  " + "  ".join(each_queue))

    def _line(self, text: str) -> None:
        if self._live:
            self._live.update(Text(text))
        else:
            output.note(text)


def work_json(done: Done) -> dict[str, str | int]:
    return {"queue": done.queue, "handled": done.handled, "failed": done.failed, "dead": done.dead}


def tally_json(tally: Tally) -> dict[str, int | float | bool]:
    return {
        "rows": tally.rows,
        "batches": tally.batches,
        "seconds": round(tally.seconds, 3),
        "rows_per_second": round(tally.rate),
        "stopped": tally.stopped,
    }


def ended(*, stopped: bool, open_: int, seconds: float) -> None:
    """What is to be said after the summary."""
    why = "stopped" if stopped else "done"
    output.note(f"{why} after {durations.show(seconds)}")
    if open_:
        output.note(
            f"{output.several(open_, 'message')} of a batch that was begun stay reserved; they are "
            "written when the job is started again. If it never will be, `holdfast reservations` "
            "gives them back",
            style="yellow",
        )
