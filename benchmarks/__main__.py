"""`python -m benchmarks`: measure, show, keep, judge."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from benchmarks import (
    about,
    command,
    cycle,
    fanout,
    flat,
    grpc,
    memory,
    plot,
    prototype,
    report,
    resp,
    senders,
    wakeup,
)
from benchmarks.run import Result, Run, progress_on

MEASUREMENTS: dict[str, tuple[str, Callable[[Run], Result]]] = {
    "cycle": ("send, receive, ack by batch size, against raw lists and Streams", cycle.measure),
    "prototype": ("the seed's table: 1,000 messages, 50 at a time", prototype.measure),
    "wakeup": ("latency of a waiting receive, against BLPOP", wakeup.measure),
    "memory": ("bytes per ready message, and what is left after acks", memory.measure),
    "flat": ("cost of a receive with a thousand and a million messages", flat.measure),
    "senders": ("concurrent single sends, against redis.asyncio", senders.measure),
    "fanout": ("publishing to 1, 10 and 100 subscriptions", fanout.measure),
    "resp": ("MQ commands through the Redis door, against FCALL", resp.measure),
    "grpc": ("sending and observing through the gRPC door", grpc.measure),
}

_LEARN = """
measurements:
{names}

how to read it:
  Everything is a ratio to a baseline that ran in the same minute on the same server in the
  same durability mode: the sides take turns in short rounds, and the ratio given is the
  median of the rounds' own ratios (quartiles in brackets). Absolute figures are this
  machine's, and say little about yours.

what is written:
  A full run replaces {results}: README.md, latest.json, throughput.png.
  A part of it (--only) or a --quick one writes nothing unless you give --out.

exit status:
  0  every bar that was measured is met      1  one is not      2  wrong usage
  A --quick run measures too little to judge: it shows the bars, and exits with 0.

examples:
  python -m benchmarks                          all of it, about six minutes
  python -m benchmarks --only cycle wakeup      two of them
  python -m benchmarks --quick --out DIR        does it run at all?
  python -m benchmarks --json > today.json      numbers for a script; no table
"""


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<10} {says}" for name, (says, _) in MEASUREMENTS.items())
    return command.parser(
        "benchmarks",
        "Holdfast side by side with raw commands, on real servers it starts itself.",
        _LEARN.format(names=names, results="benchmarks/results/"),
        MEASUREMENTS,
        ("NAME", "only these measurements"),
    )


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [name for name in MEASUREMENTS if not options.only or name in options.only]
    aside = Console(stderr=True)
    circumstances = about.look(seed=options.seed, quick=options.quick)
    started = time.monotonic()
    results: dict[str, Result] = {}
    with progress_on(aside) as progress:
        run = Run(options.quick, options.seed, progress, aside)
        overall = progress.add_task("Measuring", total=len(chosen))
        for number, name in enumerate(chosen, 1):
            says, measure = MEASUREMENTS[name]
            if not aside.is_terminal:
                aside.print(f"{number} of {len(chosen)}: {name}, {says}")
            progress.update(overall, description=f"[bold]{name}[/]: {says}")
            results[name] = measure(run)
            progress.advance(overall)
    circumstances = replace(circumstances, seconds=round(time.monotonic() - started, 1))

    bars = [bar for result in results.values() for bar in result.bars()]
    tables = [table for result in results.values() for table in result.tables()]
    tables.append(report.bar_table(bars))
    document = report.as_json(circumstances, results, bars)
    command.show(circumstances, tables, document, json=options.json)
    folder = command.folder(options, complete=len(chosen) == len(MEASUREMENTS))
    if folder is not None:
        drawn = results.get("cycle")
        report.write(
            folder, report.markdown(circumstances, tables, plot=drawn is not None), document
        )
        if isinstance(drawn, cycle.CycleResult):
            plot.draw(drawn, circumstances, folder / "throughput.png")
        aside.print(f"written to {folder}: README.md, latest.json, throughput.png")
    return command.status(options, bars, aside)


if __name__ == "__main__":
    sys.exit(main())
