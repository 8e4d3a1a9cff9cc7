"""`python -m benchmarks.peers`: install, measure, show, keep, judge."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from dataclasses import replace

from rich.console import Console

from benchmarks import about, command, report
from benchmarks.peers import plot
from benchmarks.peers.install import version
from benchmarks.peers.measuring import measure
from benchmarks.peers.sides import OURS, SIDES
from benchmarks.run import Run, Table, progress_on

_FILES = "peers.md, peers.json, peers.png"

_LEARN = """
peers:
{names}
  Each is installed once, in a folder of its own below .peers/, at the version that
  benchmarks/peers/requirements/ pins; how each is set up, and why, stands in the head of its program in
  benchmarks/peers/programs/.

what is measured:
  One server, over TCP on loopback, for all; emptied before each turn. The sides take turns in
  rounds, in random order. Figures are medians of the rounds; "ours is ×" is the median of the rounds'
  own ratios. Of each side: sending one by one and in bulk, draining by one worker process, latency
  at 100 tasks a second, memory, CPU, commands; and whether a task survives kill -9.
  Close what else runs: sender, worker and server share the cores.

what is written:
  A full run replaces {files} in benchmarks/results/.
  A part of it (--only) or a --quick one writes nothing unless you give --out.

exit status:
  0  every bar is met, every peer was measured     1  a bar is not met     2  wrong usage
  3  a peer was not measured: the table says why
  A --quick run measures too little to judge: it shows the bars, and exits with 0 or 3.

examples:
  python -m benchmarks.peers                             all of it, about ten minutes
  python -m benchmarks.peers --only dramatiq bullmq      these, next to ours
  python -m benchmarks.peers --only holdfast --quick     ours alone: does it run at all?
  python -m benchmarks.peers --json > today.json         numbers for a script; no table
"""


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(
        f"  {name:<11} {version(side)}" for name, side in SIDES.items() if name != OURS
    )
    return command.parser(
        "benchmarks.peers",
        "Holdfast's tasks and workers side by side with other task queues.",
        _LEARN.format(names=names, files=_FILES),
        SIDES,
        ("PEER", "only these, and ours"),
    )


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen = [
        side for name, side in SIDES.items() if name == OURS or name in (options.only or SIDES)
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # workers and servers end with us
    aside = Console(stderr=True)
    circumstances = replace(
        about.look(seed=options.seed, quick=options.quick), connection="TCP on loopback"
    )
    started = time.monotonic()
    with progress_on(aside) as progress:
        result = measure(Run(options.quick, options.seed, progress, aside), chosen)
    circumstances = replace(circumstances, seconds=round(time.monotonic() - started, 1))

    bars = result.bars()
    tables = [*result.tables(), *([report.bar_table(bars)] if bars else [])]
    document = report.as_json(circumstances, {"peers": result}, bars)
    command.show(circumstances, tables, document, json=options.json, width=160)
    folder = command.folder(options, complete=len(chosen) == len(SIDES))
    if folder is not None:
        (folder / "peers.md").write_text(_markdown(circumstances, tables))
        (folder / "peers.json").write_bytes(document)
        if result.sides:
            plot.draw(result, circumstances, folder / "peers.png")
        aside.print(f"written to {folder}: {_FILES}")
    for name, why in result.missing.items():
        aside.print(f"not measured: {name}: {why}", style="red", highlight=False)
    return command.status(options, bars, aside) or (3 if result.missing else 0)


def _markdown(circumstances: about.About, tables: list[Table]) -> str:
    return "\n".join(
        [
            "# Results of `make bench-peers`",
            "",
            circumstances.line() + ".",
            "",
            "All sides took turns on one server in one run; each peer has its own best documented "
            "settings with acknowledgement after the work, which the head of its program in "
            "`benchmarks/peers/programs/` tells and explains. All numbers, each round included, are in "
            "`peers.json`.",
            "",
            "![Speed, latency, memory and CPU of every side](peers.png)",
            "",
            report.sections(tables),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
