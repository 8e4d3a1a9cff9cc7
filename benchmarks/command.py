"""What the commands of all benchmarks have in common: options, output, verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import report
from benchmarks.about import About
from benchmarks.bars import Bar
from benchmarks.run import Table

RESULTS = Path(__file__).parent / "results"


def parser(
    module: str, says: str, learn: str, names: Iterable[str], only: tuple[str, str]
) -> argparse.ArgumentParser:
    """`only`: what is chosen by --only, as a placeholder and in words."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=says,
        epilog=learn,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--quick", action="store_true", help="one small round; no verdict")
    made.add_argument("--only", nargs="+", choices=list(names), metavar=only[0], help=only[1])
    made.add_argument("--json", action="store_true", help="print JSON instead of tables")
    made.add_argument("--out", type=Path, metavar="DIR", help="write the results there")
    made.add_argument("--seed", type=int, default=1, help="for bodies and the order of sides (1)")
    return made


def show(
    circumstances: About, tables: Sequence[Table], document: bytes, *, json: bool, width: int = 140
) -> None:
    if json:
        sys.stdout.buffer.write(document)
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=width)
    report.show(console, circumstances, list(tables))


def folder(options: argparse.Namespace, *, complete: bool) -> Path | None:
    """Where results are to be written: a part of them only where one is told."""
    found: Path | None = options.out or (RESULTS if complete and not options.quick else None)
    if found is not None:
        found.mkdir(parents=True, exist_ok=True)
    return found


def status(options: argparse.Namespace, bars: Iterable[Bar], aside: Console) -> int:
    """The exit status: 1 if a bar is not met."""
    if options.quick:
        aside.print("a quick run judges nothing; leave out --quick for a verdict")
        return 0
    return 0 if all(bar.passed for bar in bars) else 1
