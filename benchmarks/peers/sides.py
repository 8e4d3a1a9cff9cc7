"""Who takes part: what each is installed from, how its worker is started, how it says it is done.

The programs are in programs/, one per side, each with its settings and their reasons in its head. A
worker is started by the peer's own command, in a folder of its own (install.py), and is one process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
REQUIREMENTS = Path(__file__).parent / "requirements"
HOMES = Path(__file__).parents[2] / ".peers"
OURS = "holdfast"


@dataclass(frozen=True)
class Side:
    name: str
    work: tuple[str, ...]
    """What starts its worker: a program in the `bin` of its home, and arguments ({url}: the server)."""
    bulk: str
    """Its way for many at once, in a few words."""
    node: bool = False
    for_crash: tuple[str, ...] = ()
    """More arguments for a worker that is going to be killed: short time-outs."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return HOMES / self.name

    @property
    def folder_of_programs(self) -> Path:
        if self.name == OURS:
            return Path(sys.executable).parent
        return self.home / "bin"

    def worker(self, url: str, *, crash: bool) -> list[str]:
        words = (*self.work, *(self.for_crash if crash else ()))
        program, *rest = (word.replace("{url}", url) for word in words)
        if self.node:
            return [program, *rest]
        return [str(self.folder_of_programs / program), *rest]

    def sender(self, *arguments: str | int) -> list[str]:
        words = [str(word) for word in arguments]
        if self.node:
            return ["node", f"{self.name}_app.mjs", *words]
        return [str(self.folder_of_programs / "python"), "send.py", f"{self.name}_app", *words]

    def surroundings(self, **more: str) -> dict[str, str]:
        """The environment of its processes."""
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = [str(PROGRAMS)]
        if self.name == OURS:  # not installed where tests run from the source tree
            path += filter(None, [os.environ.get("PYTHONPATH")])
        return {
            **plain,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PEERS_HOME": str(self.home),
            **self.environment,
            **more,
        }


SIDES: dict[str, Side] = {
    side.name: side
    for side in (
        Side(
            OURS,
            (
                *("python", "-m", "holdfast.cli", "worker", "holdfast_app:app"),
                *("--queues", "bench", "--concurrency", "100"),
            ),
            "send_many",
            for_crash=("--lease", "5s"),
        ),
        Side(
            "dramatiq",
            ("dramatiq", "dramatiq_app", "--processes", "1", "--threads", "16"),
            "group.run, one by one",
            environment={"dramatiq_queue_prefetch": "200"},
        ),
        Side(
            "taskiq",
            (
                *("taskiq", "worker", "taskiq_app:broker", "--workers", "1"),
                *("--max-async-tasks", "100", "--max-prefetch", "100"),
                *("--ack-type", "when_executed", "--log-level", "WARNING"),
            ),
            "gather of kiq",
        ),
        Side("faststream", ("faststream", "run", "faststream_app:app"), "publish in a pipeline"),
        Side("saq", ("saq", "saq_app.settings"), "gather of enqueue"),
        Side("arq", ("arq", "arq_app.WorkerSettings"), "gather of enqueue_job"),
        Side(
            "huey",
            ("huey_consumer", "huey_app.huey", "-w", "10", "-k", "thread", "--quiet"),
            "map, one by one",
        ),
        Side(
            "rq",
            (
                *(
                    "rq",
                    "worker",
                    "bench",
                    "--url",
                    "{url}",
                    "--worker-class",
                    "rq.worker.SimpleWorker",
                ),
                *("--serializer", "rq.serializers.JSONSerializer", "--logging_level", "WARNING"),
            ),
            "enqueue_many",
        ),
        Side(
            "celery",
            (
                *("celery", "-A", "celery_app", "worker", "--pool", "solo", "--queues", "bench"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ),
            "kombu's Producer.batch",
        ),
        Side("bullmq", ("node", "bullmq_app.mjs", "work"), "addBulk", node=True),
    )
}
