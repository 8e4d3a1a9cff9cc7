"""One scenario with one seed: servers, load, fault, healing, draining, verdict.

    python -m tools.torture.run SCENARIO SEED FOLDER [--bare]

is what `runner.py` starts, in a network of its own.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

import holdfast
from holdfast import HoldfastError
from holdfast.message import STATES
from tools.torture import checker, history, scenarios
from tools.torture.crew import Crew, Options
from tools.torture.front import Front
from tools.torture.history import History
from tools.torture.nemesis import Nemesis
from tools.torture.node import wait_until
from tools.torture.probe import Probe
from tools.torture.producers import many, produce
from tools.torture.scenarios import Scenario
from tools.torture.takers import receive
from tools.torture.workload import Places, Workload

_DRAIN = 45.0


class Outcome(msgspec.Struct):
    """`found`: how many of each kind the checker found. `broken`: why there is no verdict, if so."""

    scenario: str
    seed: int
    good: bool
    seconds: float = 0.0
    offered: int = 0
    stored: int = 0
    delivered: int = 0
    redelivered: int = 0
    forgotten: int = 0
    found: dict[str, int] = {}
    examples: dict[str, list[str]] = {}
    errors: dict[str, int] = {}
    faults: list[str] = []
    silence: float | None = None
    probe_silence: float | None = None
    broken: str = ""

    @property
    def command(self) -> str:
        """Does the same again: what is drawn by chance is drawn from the seed; threads run as they like."""
        return f"python -m tools.torture --only {self.scenario} --seed {self.seed}"


def judged(scenario: Scenario, found: dict[str, int]) -> bool:
    """A control is good when what it does was found; all others when nothing was."""
    if scenario.control:
        return bool(found.get(scenario.control))
    return not found


def run(scenario: Scenario, seed: int, folder: Path, *, bare: bool = False) -> Outcome:
    """`bare`: without doors and workers, which take seconds to start."""
    began = time.monotonic()
    drawn = f"{scenario.name} {seed}"
    notes = History(folder / "history" / "run.jsonl")
    servers = scenario.servers(folder)
    front: Front | None = None
    try:
        options = Options(servers.url, scenario.replicas)
        crew = Crew(options, notes, drawn, lambda: servers.offset)
        load = Workload(crew, servers)
        if scenario.ways == "consumers":
            _load_for_consumers(crew, load)
        else:
            if not bare:
                tasks = servers.near("tasks")
                front = Front(folder, options, tasks)
                load.fronted(front, tasks)
            load.start()
        crew.flow(10)
        probe = Probe(servers, notes, scenario.replicas)
        nemesis = Nemesis(servers, crew, notes, crew.chance("nemesis"), folder, load.keys, front)
        scenario.do(nemesis)
        servers.mend()
        notes.note("healed")
        crew.flow(5)
        crew.end_producers()
        probe.end()
        if scenario.ways == "consumers":
            receive(crew, "rest", "killed", load.admin.queue("killed"), count=50)
        _drain(load.places, crew)
        for place, at in load.places.items():
            _note_what_is_left(notes, place, at, crew)
        crew.end_takers()
        for problem in front.problems() if front else ():
            notes.note("foreign", who="front", text=problem)
    finally:
        if front:
            front.close()
        servers.close()
    verdict = checker.check(history.read(folder / "history"), scenario.rules)
    found = dict(verdict.found)
    return Outcome(
        scenario.name,
        seed,
        judged(scenario, found),
        time.monotonic() - began,
        verdict.offered,
        verdict.stored,
        verdict.delivered,
        verdict.redelivered,
        verdict.forgotten,
        found,
        dict(verdict.examples),
        dict(verdict.errors),
        nemesis.notes,
        verdict.silence,
        verdict.probe_silence,
    )


def _load_for_consumers(crew: Crew, load: Workload) -> None:
    q = crew.connect().queue("killed")
    load.places["killed"] = q
    produce(crew, "send_many", ["killed"], many(q), batch=5)


def _drain(places: Places, crew: Crew) -> None:
    """Returns when all places are empty, but for dead letters; or when that takes too long."""

    def empty() -> bool:
        for at in places.values():
            try:
                stats = at.stats()
            except HoldfastError as error:
                crew.failed("drain", error)
                return False
            if stats.total - stats.dead:
                return False
        return True

    # What is left is written down, and the checker says so.
    with suppress(TimeoutError):
        wait_until(empty, _DRAIN, "all places empty")


def _note_what_is_left(
    notes: History, place: str, at: holdfast.Queue | holdfast.Subscription, crew: Crew
) -> None:
    for state in STATES:
        done, found = crew.attempt("inspect", lambda: at.inspect(state, 0, 10_000))  # noqa: B023
        for message in found if done else ():
            body = message.body.decode(errors="replace")
            notes.note("left", place=place, body=body, id=message.id, text=state)


def main() -> None:
    name, seed, folder = sys.argv[1:4]
    where = Path(folder)
    outcome = run(scenarios.named(name), int(seed), where, bare="--bare" in sys.argv)
    (where / "outcome.json").write_bytes(msgspec.json.encode(outcome))
    sys.stdout.flush()
    os._exit(0)  # threads that hang are none of our business any more


if __name__ == "__main__":
    main()
