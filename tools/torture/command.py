"""Tortures real servers while messages flow, and checks that nothing is lost.

  python -m tools.torture                          every scenario, with seed 1
  python -m tools.torture --seeds 20               with seeds 1 to 20: about an hour on two idle cores
  python -m tools.torture --only sentinel          those whose name has this word; may be given again
  python -m tools.torture --only cluster.kill --seed 7      a run again, from its seed
  python -m tools.torture --keep out               histories and logs of runs that are not good, in out/
  python -m tools.torture --list                   which scenarios there are, and what each promises
  python -m tools.torture --seeds 20 --write       and put the table into docs/proof.md
  python -m tools.torture --seeds 20 --resume book      may be interrupted, and goes on where it was

Each run starts servers of its own: one node, a primary with two replicas and three Sentinels, or a
cluster of three primaries and three replicas; in a network of its own, where the machine can give it
one. Producers send in every way there is, takers take in every way there is, `holdfast serve` and
`holdfast worker` stand in front. Then the nemesis strikes. When all is healed and drained, a checker
goes through the histories. Controls break a rule on purpose: that the checker does not notice is a
failure too.

The exit status is 0 if all runs were good; 1 if not; 2 for a call that makes no sense; 130 when
interrupted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec
from rich.console import Console
from rich.table import Table

from tools.torture import proof
from tools.torture.resume import Book
from tools.torture.run import Outcome
from tools.torture.runner import Runner
from tools.torture.scenarios import ALL, CONTROLS, Scenario

_EVERY = (*ALL, *CONTROLS)


def chosen(words: Sequence[str]) -> list[Scenario]:
    """Those with one of these words in their names; all of them if there is no word."""
    return [s for s in _EVERY if not words or any(word in s.name for word in words)]


def torture(
    runner: Runner,
    scenarios: Sequence[Scenario],
    seeds: Sequence[int],
    *,
    jobs: int,
    told: Console,
    book: Book,
) -> list[Outcome]:
    """All seeds of all scenarios, seed by seed, so that an early look shows something of everything. What the
    book has is not run again."""
    for scenario in scenarios:
        if scenario.lacks:
            told.print(f"{scenario.name}: left out, {scenario.lacks}", style="yellow")
    wanted = [(s, seed) for seed in seeds for s in scenarios if not s.lacks]
    outcomes = [book.done[s.name, seed] for s, seed in wanted if (s.name, seed) in book.done]
    if outcomes:
        told.print(f"{len(outcomes)} of {len(wanted)} runs are in the book already", style="yellow")
    missing = [(s, seed) for s, seed in wanted if (s.name, seed) not in book.done]
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(runner.run, scenario, seed) for scenario, seed in missing]
        try:
            for future in as_completed(futures):
                outcomes.append(future.result())
                book.add(outcomes[-1])
                _tell(outcomes[-1], len(outcomes), len(wanted), told)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise
    return outcomes


def _tell(outcome: Outcome, number: int, count: int, told: Console) -> None:
    width = len(str(count))
    style = "green" if outcome.good else "bold red"
    word = "good" if outcome.good else "BAD "
    line = (
        f"{number:>{width}}/{count} [{style}]{word}[/] {outcome.seconds:5.1f} s  {outcome.scenario}"
    )
    line += f" {outcome.seed}: {outcome.stored} stored"
    if outcome.found:
        line += ", " + ", ".join(f"{kind} {n}" for kind, n in outcome.found.items())
    told.print(line, highlight=False, soft_wrap=True)
    if not outcome.good:
        examples = [
            f"{kind}: {example.partition(chr(10))[0]}"
            for kind in outcome.found
            for example in outcome.examples[kind]
        ]
        lines = [
            *outcome.faults,
            *examples,
            *outcome.broken.splitlines(),
            f"again: {outcome.command}",
        ]
        for line in lines:
            told.print(f"      {line}", highlight=False, soft_wrap=True, markup=False)


def _show(outcomes: Sequence[Outcome], scenarios: Sequence[Scenario], told: Console) -> None:
    table = Table(box=None)
    table.add_column("scenario", no_wrap=True)
    for title in ("fault", "seeds", "stored", "gap, s", "result"):
        table.add_column(title)
    for scenario in scenarios:
        cells = proof.row(scenario, [o for o in outcomes if o.scenario == scenario.name])
        _, fault, name, *rest = (cell.replace("`", "").replace("**", "") for cell in cells)
        table.add_row(name, fault, *rest)
    told.print(table)


def _parser() -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tools.torture",
        description=first,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="seeds 1 to N; default: 1"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="this seed alone")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORD",
        help="scenarios with this in their name",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at a time; default: one for each core",
    )
    parser.add_argument(
        "--bare", action="store_true", help="without doors and worker: quicker, and proves less"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="histories and logs of runs that are not good"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep outcomes there, and run only what is missing for this code",
    )
    parser.add_argument("--json", action="store_true", help="all outcomes for scripts, on stdout")
    parser.add_argument("--list", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="the table into docs/proof.md")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    scenarios = chosen(given.only)
    if not scenarios:
        parser.error(f"no scenario has {' or '.join(given.only)} in its name; see --list")
    if given.seeds < 1 or given.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    if given.write and len(scenarios) < len(_EVERY):
        parser.error("--write is for all scenarios: a table of some would look like one of all")
    if given.resume and given.bare:
        parser.error("--resume keeps whole runs: --bare leaves out doors and worker")
    if given.write and given.bare:
        parser.error("--write is for whole runs: --bare leaves out doors and worker")
    told = Console(stderr=given.json)
    if given.list:
        table = Table("scenario", "fault", "promise", box=None)
        for scenario in scenarios:
            table.add_row(scenario.name, scenario.fault, scenario.promise)
        told.print(table)
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    seeds = [given.seed] if given.seed is not None else list(range(1, given.seeds + 1))
    began = time.monotonic()
    try:
        runner = Runner(bare=given.bare, keep=given.keep)
        book = Book(given.resume)
        outcomes = torture(runner, scenarios, seeds, jobs=given.jobs, told=told, book=book)
    except KeyboardInterrupt:
        return 130
    if given.json:
        sys.stdout.write(msgspec.json.encode(outcomes).decode() + "\n")
    else:
        _show(outcomes, scenarios, told)
    good = sum(outcome.good for outcome in outcomes)
    told.print(
        f"{good} of {len(outcomes)} runs good in {time.monotonic() - began:.0f} s", highlight=False
    )
    if given.write:
        proof.write(outcomes, scenarios, datetime.now(UTC).date())
    return 0 if outcomes and good == len(outcomes) else 1
