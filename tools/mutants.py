"""Shows that the tests find faults: breaks one line of our source at a time and looks for a test that fails.

    python tools/mutants.py                 all of tools/mutants.toml
    python tools/mutants.py --only lease    those whose name, part or file has this word
    python tools/mutants.py --quick         with the tests of `make quick` only
    python tools/mutants.py --jobs 1        one at a time; default: as many as there are cores
    python tools/mutants.py --json          the outcome for scripts
    python tools/mutants.py --list          which there are

Each fault goes into a copy of the project, so the work tree stays as it is. `caught`: a test failed, or the
tests did not end in time. `SURVIVED`: all passed, or none was there to run. `BROKEN`: pytest could not even
collect the tests, which says nothing about them. The exit status is 0 if all were caught.

Tests that fail without a fault would make every fault look caught: run them first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Literal

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
TABLE = "tools/mutants.toml"
PARTS = (
    "engine",
    "client",
    "doors",
    "worker",
    "tasks",
    "topics",
    "spark",
    "jobs",
    "embedded",
    "cli",
)
TIMEOUT = 600.0
_COLORS = {"caught": "green", "SURVIVED": "bold red", "BROKEN": "bold magenta"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)

Verdict = Literal["caught", "SURVIVED", "BROKEN"]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    part: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def has(self, word: str) -> bool:
        return any(word.lower() in text.lower() for text in (self.name, self.part, self.file))

    def apply(self, root: Path) -> None:
        """Put the fault into the project at `root`, generated files included."""
        path = root / self.file
        text = path.read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times, not once: {self.old}")
        path.write_text(text.replace(self.old, self.new), "utf-8")
        if path.parent.name == "_async":
            command = [sys.executable, str(root / "tools/generate.py")]
            subprocess.run(command, cwd=root, check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`by`: the test that failed, or why there is none."""

    name: str
    part: str
    verdict: Verdict
    by: str
    seconds: float


def read(root: Path = ROOT) -> list[Mutant]:
    """The list, in its order."""
    entries = tomllib.loads((root / TABLE).read_text("utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


class Runner:
    """Runs mutants, each in a copy of its own. `stop` ends those that run, from any thread."""

    def __init__(self, root: Path = ROOT, *, quick: bool = False, timeout: float = TIMEOUT) -> None:
        self._root = root
        self._options = ["--quick"] if quick else []
        self._timeout = timeout
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, mutant: Mutant) -> Outcome:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            copy = Path(folder, "copy")
            _copy(self._root, copy)
            mutant.apply(copy)
            status, said = self._pytest(copy, Path(folder, "tmp"), mutant.tests)
        verdict, by = judge(status, said)
        return Outcome(mutant.name, mutant.part, verdict, by, time.monotonic() - began)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def _pytest(self, copy: Path, tmp: Path, tests: Sequence[str]) -> tuple[int | None, str]:
        """Its exit status, None if it took too long, and what it said."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"]
        command += [f"--basetemp={tmp}", *self._options, *tests]
        # To a file: a pipe would stay open as long as any process that the tests have left behind.
        log = copy.parent / "log"
        with log.open("wb") as output, self._started(command, copy, output) as process:
            try:
                status: int | None = process.wait(self._timeout)
            except subprocess.TimeoutExpired:
                status = None
        return status, log.read_text("utf-8", "replace")

    @contextmanager
    def _started(
        self, command: list[str], copy: Path, output: IO[bytes]
    ) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command,
                cwd=copy,
                env=_environment(copy),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that it can be ended with all that it started
            )
            self._running.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._running.discard(process)
                if process.poll() is None:
                    _kill(process)
            process.wait()


def judge(status: int | None, said: str) -> tuple[Verdict, str]:
    """What pytest's exit status means, and which test it is about."""
    if status is None:
        return "caught", "timeout"
    # What the tests have logged may look the same.
    failed = _FAILED.findall(said.rpartition(" short test summary info ")[2])
    if failed and "::" not in failed[0]:
        # A file that cannot be imported. Some versions of pytest end with 1 then, as for a test that failed.
        return "BROKEN", f"cannot run {failed[0]}"
    if status == 1 and failed:
        return "caught", failed[0]
    if status == 0:
        return "SURVIVED", "all tests passed"
    if status == 5:
        return "SURVIVED", "no test was run"
    last = said.strip().rpartition("\n")[2]
    return "BROKEN", f"exit status {status}: {last}"


def _copy(root: Path, target: Path) -> None:
    """The project as it is now: what git has, and what it would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def _environment(copy: Path) -> dict[str, str]:
    """The copy's source wins over the project that is installed; clients of other makes are found."""
    foreign = Path(sys.prefix, "foreign", "bin")
    return os.environ | {
        "PATH": os.pathsep.join([str(foreign), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy)]),
    }


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _run_all(runner: Runner, mutants: Sequence[Mutant], jobs: int, told: Console) -> list[Outcome]:
    """In the order of the list; says how each ended as soon as it has."""
    found: dict[str, Outcome] = {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(runner.run, mutant) for mutant in mutants]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                found[outcome.name] = outcome
                told.print(
                    f"{len(found):>3}/{len(mutants)}",
                    f"[{_COLORS[outcome.verdict]}]{outcome.verdict:8}[/]",
                    f"{outcome.seconds:6.1f} s  {outcome.name}: {_plain(outcome.by)}",
                    soft_wrap=True,
                    highlight=False,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise
    return [found[mutant.name] for mutant in mutants]


def _show(outcomes: Sequence[Outcome], seconds: float, console: Console) -> None:
    table = Table("part", "fault", "", "s", box=None)
    table.add_column("by", overflow="fold")
    for o in outcomes:
        verdict = f"[{_COLORS[o.verdict]}]{o.verdict}[/]"
        table.add_row(o.part, o.name, verdict, f"{o.seconds:.1f}", _plain(o.by))
    console.print(table)
    caught = sum(o.verdict == "caught" for o in outcomes)
    console.print(f"{caught} of {len(outcomes)} caught in {seconds:.0f} s", highlight=False)


def _plain(text: str) -> str:
    """What rich is not to take for markup."""
    return text.replace("[", r"\[")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", metavar="WORD", default="", help="in the name, part or file")
    parser.add_argument("--quick", action="store_true", help="the tests of `make quick` only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at a time")
    parser.add_argument("--json", action="store_true", help="the outcome for scripts")
    parser.add_argument("--list", action="store_true", help="run nothing")
    given = parser.parse_args()
    mutants = [mutant for mutant in read() if mutant.has(given.only)]
    if not mutants:
        parser.error(f"no mutant has {given.only!r} in its name, part or file")
    console = Console()
    if given.list:
        if given.json:
            print(json.dumps([asdict(mutant) for mutant in mutants], indent=2))
        else:
            for m in mutants:
                console.print(f"{m.part:9} {m.name}", soft_wrap=True, highlight=False)
        return 0
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    runner = Runner(quick=given.quick)
    try:
        told = Console(stderr=True) if given.json else console
        outcomes = _run_all(runner, mutants, max(given.jobs, 1), told)
    except KeyboardInterrupt:
        return 130
    if given.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        _show(outcomes, time.monotonic() - began, console)
    return 0 if all(o.verdict == "caught" for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
