"""`python -m benchmarks.spark`: measure, show, keep, judge."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import command, report
from benchmarks.run import Result, Run, Table, progress_on
from benchmarks.spark import about, flat, plot, reading, rig, streaming, writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASUREMENTS: dict[str, tuple[str, Callable[[Run, SparkSession], Result]]] = {
    # First: what others leave in these processes as free memory, a leak could hide in.
    "flat": ("memory while five million messages go through", flat.measure),
    "reading": ("batch read of a queue, against a plain Python drain", reading.measure),
    "streaming": ("stream to Parquet by size of a trigger, against no server", streaming.measure),
    "writing": ("a DataFrame into a queue, against plain send_many", writing.measure),
}
_FILES = "spark.md, spark.json, spark.png"

_LEARN = """
measurements:
{names}

how to read it:
  Everything is a ratio to a baseline that ran in the same minutes on the same machine: the
  sides take turns in rounds, and the ratio given is the median of the rounds' own ratios
  (quartiles in brackets). Spark, its Python workers and the server share the cores. Close
  what else runs: more than two cores' worth of work is always there.

what is written:
  A full run replaces {files} in benchmarks/results/.
  A part of it (--only) or a --quick one writes nothing unless you give --out.

exit status:
  0  every bar that was measured is met      1  one is not      2  wrong usage
  A --quick run measures too little to judge: it shows the bars, and exits with 0.

examples:
  python -m benchmarks.spark                          all of it, about ten minutes
  python -m benchmarks.spark --only reading writing   two of them
  python -m benchmarks.spark --quick --out DIR        does it run at all?
  python -m benchmarks.spark --json > today.json      numbers for a script; no table
"""


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<10} {says}" for name, (says, _) in MEASUREMENTS.items())
    return command.parser(
        "benchmarks.spark",
        "Holdfast in Spark side by side with plain Python, no server, and redis-py.",
        _LEARN.format(names=names, files=_FILES),
        MEASUREMENTS,
        ("NAME", "only these measurements"),
    )


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [name for name in MEASUREMENTS if not options.only or name in options.only]
    aside = Console(stderr=True)
    load_before = os.getloadavg()[0]
    started = time.monotonic()
    results: dict[str, Result] = {}
    with rig.spark(quick=options.quick) as spark, progress_on(aside) as progress:
        circumstances = about.look(
            spark, seed=options.seed, quick=options.quick, load_before=load_before
        )
        run = Run(options.quick, options.seed, progress, aside)
        overall = progress.add_task("Measuring", total=len(chosen))
        for number, name in enumerate(chosen, 1):
            says, measure = MEASUREMENTS[name]
            if not aside.is_terminal:
                aside.print(f"{number} of {len(chosen)}: {name}, {says}")
            progress.update(overall, description=f"[bold]{name}[/]: {says}")
            results[name] = measure(run, spark)
            progress.advance(overall)
    circumstances = replace(circumstances, seconds=round(time.monotonic() - started, 1))

    bars = [bar for result in results.values() for bar in result.bars()]
    tables = [table for result in results.values() for table in result.tables()]
    tables.append(report.bar_table(bars))
    document = report.as_json(circumstances, results, bars)
    command.show(circumstances, tables, document, json=options.json)
    folder = command.folder(options, complete=len(chosen) == len(MEASUREMENTS))
    if folder is not None:
        (folder / "spark.md").write_text(_markdown(circumstances, tables))
        (folder / "spark.json").write_bytes(document)
        plot.draw(results, circumstances, folder / "spark.png")
        aside.print(f"written to {folder}: {_FILES}")
    return command.status(options, bars, aside)


def _markdown(circumstances: about.SparkAbout, tables: list[Table]) -> str:
    return "\n".join(
        [
            "# Results of `make bench-spark`",
            "",
            circumstances.line() + ".",
            "",
            "The sides of each comparison took turns on the same machine, which the server, Spark and "
            "its Python workers share; a ratio is the median of the ratios of single rounds. All "
            "numbers, each round included, are in `spark.json`.",
            "",
            "![Rows per second, and memory over five million messages](spark.png)",
            "",
            report.sections(tables),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
