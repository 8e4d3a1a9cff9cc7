"""What every measurement is given, and what it gives back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.bars import Bar

BODY_BYTES = 100


@dataclass(frozen=True)
class Table:
    """Shown on the terminal, and as Markdown."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


class Result(Protocol):
    """A dataclass of plain values, so that all of it can go to JSON."""

    def tables(self) -> list[Table]: ...

    def bars(self) -> list[Bar]: ...


@dataclass
class Run:
    quick: bool
    seed: int
    progress: Progress
    console: Console
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def bodies(self, count: int) -> list[bytes]:
        return [self.rng.randbytes(BODY_BYTES) for _ in range(count)]

    def choose(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def step(self, says: str, total: int) -> Iterator[Callable[[], None]]:
        """One thing that is measured now; call what you get when a part of `total` is done."""
        if not self.console.is_terminal:
            self.console.print(f"  {says}")
        task = self.progress.add_task(f"  {says}", total=total)
        try:
            yield lambda: self.progress.advance(task)
        finally:
            self.progress.remove_task(task)


def progress_on(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
