"""What was found, in three forms: tables on the terminal, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.about import About
from benchmarks.bars import Bar
from benchmarks.run import Result, Table

_LEFT = {"what", "side", "waiter", "state", "bar", "keys left", "its bulk", "why"}


def bar_table(bars: Iterable[Bar]) -> Table:
    rows: list[tuple[str, ...]] = []
    for bar in bars:
        aim = f" (aim {bar.aim:g})" if bar.aim is not None else ""
        rows.append(
            (
                bar.name,
                f"{bar.measured:.2f} {bar.unit}",
                f"{bar.relation} {bar.limit:g}{aim}",
                "pass" if bar.passed else "FAIL",
            )
        )
    return Table("Bars", ("bar", "measured", "limit", "verdict"), rows)


def show(console: Console, about: About, tables: Iterable[Table]) -> None:
    console.print(about.line(), style="dim")
    for table in tables:
        shown = RichTable(
            title=table.title,
            title_justify="left",
            title_style="bold",
            caption=table.note or None,
            caption_justify="left",
            box=box.SIMPLE_HEAD,
        )
        for column in table.columns:
            shown.add_column(column, justify="left" if column in _LEFT else "right")
        for row in table.rows:
            shown.add_row(*row, style={"FAIL": "red", "pass": "green"}.get(row[-1]))
        console.print(shown)


def markdown(about: About, tables: Iterable[Table], *, plot: bool) -> str:
    parts = [
        "# Results of `make bench`",
        "",
        about.line() + ".",
        "",
        "Both sides of each comparison ran on the same server in the same durability mode, in turns "
        "of some tens of ms; a ratio is the median of the ratios of single rounds. All numbers, "
        "each round included, are in `latest.json`.",
        "",
    ]
    if plot:
        parts += ["![Throughput of the full cycle by batch size](throughput.png)", ""]
    return "\n".join([*parts, sections(tables)])


def sections(tables: Iterable[Table]) -> str:
    """Each table under its title."""
    parts: list[str] = []
    for table in tables:
        rule = ["---" if column in _LEFT else "---:" for column in table.columns]
        parts += [f"## {table.title}", "", _line(table.columns), _line(rule)]
        parts += [_line(cell.replace("|", "\\|") for cell in row) for row in table.rows]
        parts += ["", *([table.note, ""] if table.note else [])]
    return "\n".join(parts).rstrip() + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_json(about: About, results: dict[str, Result], bars: Iterable[Bar]) -> bytes:
    """Everything, each round included."""
    document: dict[str, Any] = {
        "about": about,
        "measurements": results,
        "bars": [{**msgspec.to_builtins(bar), "passed": bar.passed} for bar in bars],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def write(folder: Path, text: str, document: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(text)
    (folder / "latest.json").write_bytes(document)
