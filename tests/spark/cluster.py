"""A real standalone Spark cluster on this machine: a master and its workers, from the wheel.

Each is a process of its own and starts executors of its own, with none of this process's variables
but the few that a worker elsewhere would have as well: what a job needs there, it must bring.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from holdfast.embedded import server
from tests.java import JVM
from tests.servers import HOST, free_port, wait_until
from tests.spark.programs import spark_shell

# Settings of a job there: its executors are small, and fast to start.
EXECUTOR = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JVM,
}
_SPARK = Path(pyspark.__file__).parent


@contextmanager
def spark_cluster(tmp: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a master to which so many workers, of one core each, have registered."""
    env = spark_shell()
    # Their logs say when they are ready, at a level that our own settings leave out.
    for name in ("PYTHONPATH", "LOG4J_CONFIGURATION_FILE"):
        env.pop(name, None)
    env |= {"SPARK_LOG_DIR": str(tmp), "SPARK_WORKER_DIR": str(tmp / "work")}
    env |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_PUBLIC_DNS": HOST}
    port = free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        log = tmp / "master.log"
        words = ["org.apache.spark.deploy.master.Master", "--port", str(port)]
        master = stack.enter_context(_running(words, env, log))
        _wait(master, log, "I have been elected leader")
        for number in range(workers):
            log = tmp / f"worker-{number}.log"
            words = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", url]
            worker = stack.enter_context(_running(words, env, log))
            _wait(worker, log, "Successfully registered with master")
        yield url


@contextmanager
def _running(
    words: list[str], env: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    own = ["--host", HOST, "--webui-port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [_SPARK / "bin" / "spark-class", words[0], *own, *words[1:]],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=server._death_with_parent(),
        )
    try:
        yield process
    finally:
        server.stop(process)


def _wait(process: subprocess.Popen[bytes], log: Path, line: str) -> None:
    def said() -> bool:
        assert process.poll() is None, log.read_text()
        return line in log.read_text()

    wait_until(said, 60, f"{line!r} in {log.name}")
