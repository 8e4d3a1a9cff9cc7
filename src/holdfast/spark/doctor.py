"""Whether this machine can run Spark on queues: what to look at, and what to do about each part.

Each part is looked at on its own, so that one run names everything that is missing; the job that
shows them to work together comes last and only where there is hope. Must load without PySpark: its
absence is a finding. Levels: `ok`; `warn`, it works but perhaps not as meant; `bad`, jobs will fail.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

import holdfast
from holdfast import embedded
from holdfast.client import failures
from holdfast.client.safety import Finding
from holdfast.errors import HoldfastError
from holdfast.spark.java import find_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

INSTALL = "pip install 'holdfast[spark]'"
# As in pyproject.toml: from, and the first that is not tried out.
_PACKAGES = {"pyspark": ((4, 3), (4, 4)), "pyarrow": ((18,), None), "pandas": ((2, 2), (3,))}
_JOB_SECONDS = 120.0


def look(url: str | None, master: str | None) -> list[Finding]:
    """Everything that can be seen without starting Spark."""
    return [
        *(_package(name) for name in _PACKAGES),
        _java(),
        *_variables(),
        *_master(master),
        _server(url, master),
    ]


# ---- the parts ----------------------------------------------------------------------------


def _package(name: str) -> Finding:
    oldest, too_new = _PACKAGES[name]
    try:
        importlib.import_module(name)
        version = importlib.metadata.version(name)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        why = "not installed" if missing else f"cannot be imported: {error}"
        return Finding(name, "bad", why, INSTALL)
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    if numbers < oldest:
        return Finding(name, "bad", f"{version} is older than {_dotted(oldest)}", INSTALL)
    if too_new and numbers >= too_new:
        says = f"{version} is newer than Holdfast was tried with"
        return Finding(name, "warn", says, f"pip install '{name}<{_dotted(too_new)}'")
    return Finding(name, "ok", version)


def _java() -> Finding:
    try:
        java = find_java()
    except HoldfastError as error:
        return Finding("java", "bad", str(error), "see the finding")
    says = f"{java.version}, from {java.source}: {java.home}"
    if java.passed_over:
        passed = "; ".join(java.passed_over)
        return Finding("java", "warn", f"{says}; passed over: {passed}", "unset or mend these")
    return Finding("java", "ok", says)


def _variables() -> Iterator[Finding]:
    """Of the variables that lead Spark astray, those that are set."""
    if python := os.environ.get("PYSPARK_PYTHON"):
        yield _python(python)
    if home := os.environ.get("SPARK_HOME"):
        theirs, ours = _spark_in(Path(home)), _version("pyspark")
        if theirs and ours and theirs.split(".")[:2] != ours.split(".")[:2]:
            says = f"{home} has Spark {theirs}, and pyspark here is {ours}"
            yield Finding("SPARK_HOME", "bad", says, "unset SPARK_HOME: the wheel has Spark in it")


def _python(program: str) -> Finding:
    mine = platform.python_version()
    ask = "import platform, holdfast; print(platform.python_version())"
    try:
        asked = subprocess.run(
            [program, "-c", ask], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "unset PYSPARK_PYTHON"
        return Finding("PYSPARK_PYTHON", "bad", f"{program} cannot be run: {error}", fix)
    if asked.returncode:
        says = f"{program} cannot import holdfast"
        fix = f"install it there: {program} -m {INSTALL}, or unset PYSPARK_PYTHON"
        return Finding("PYSPARK_PYTHON", "bad", says, fix)
    theirs = asked.stdout.strip()
    if theirs.split(".")[:2] != mine.split(".")[:2]:
        says = f"{program} is {theirs}, and the driver is {mine}: Spark wants one version"
        return Finding("PYSPARK_PYTHON", "bad", says, f"set it to {sys.executable}")
    return Finding("PYSPARK_PYTHON", "ok", f"{theirs}: {program}")


def _master(master: str | None) -> Iterator[Finding]:
    if master is None or _version("pyspark") is None:
        return
    try:
        from holdfast.spark import session

        session.check_master(master)
    except ImportError:
        return  # it was said of the package
    except HoldfastError as error:
        yield Finding("master", "bad", str(error), "see the finding")
    else:
        yield Finding("master", "ok", master)


def _server(url: str | None, master: str | None) -> Finding:
    """The queue server, and whether executors elsewhere could reach it."""
    # No patience, and no warnings: saying what is wrong is what this is for.
    try:
        with holdfast.connect(url, retry_for=0.5, check="off") as client:
            client.ping()
            where = client.transport.address.safe if url else str(embedded.status().home)
            found = [f for each in client.examine().values() for f in each if f.level == "bad"]
    except HoldfastError as error:
        return Finding("server", "bad", str(error), "start it, or give another --url")
    except RedisError as error:
        return Finding("server", "bad", str(failures.translated(error)), "see `holdfast doctor`")
    if found:
        return Finding("server", "warn", f"{where}: {found[0].says}", "see `holdfast doctor`")
    if master and not master.startswith("local") and (url is None or url.startswith("unix")):
        says = f"{where} can be reached from this machine only, and {master} may use others"
        return Finding("server", "warn", says, "serve it on a port: --url redis://HOST:PORT")
    return Finding("server", "ok", where)


# ---- the job ------------------------------------------------------------------------------


def try_out(url: str | None, master: str | None, conf: Mapping[str, str]) -> list[Finding]:
    """Starts Spark and runs a job whose tasks import Holdfast and reach the server."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from holdfast.spark import session

    started_before = SparkSession.getActiveSession() is not None
    began = time.monotonic()
    try:
        spark = session.build("holdfast spark doctor", master, conf)
    except HoldfastError as error:
        return [Finding("spark", "bad", str(error), "see the finding")]
    except Exception as error:  # py4j hands on whatever Java throws
        return [Finding("spark", "bad", f"did not start: {_cause(error)}", "see stderr")]
    took = time.monotonic() - began
    says = f"{spark.version} at {spark.sparkContext.master}, started in {took:.1f} s"
    findings = [Finding("spark", "ok", says)]
    try:
        findings.append(_format(spark))
        findings.append(_job(spark, url))
    except PySparkException as error:
        findings.append(Finding("job", "bad", _cause(error), "see stderr"))
    finally:
        if not started_before:
            spark.stop()
    return findings


def _format(spark: SparkSession) -> Finding:
    """Asked of the sessions's own catalogue: registered is what Spark says is."""
    spark.read.format("holdfast").option("queue", "doctor").load()
    return Finding("format", "ok", 'format("holdfast") is registered')


def _job(spark: SparkSession, url: str | None) -> Finding:
    home = None if url else embedded.status().home

    def visit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with holdfast.connect(url, home=home, retry_for=0.5, check="off") as client:
            client.ping()
        yield from batches

    began = time.monotonic()
    with _deadline(spark) as passed:
        try:
            rows = spark.range(0, 1000, 1, 2).mapInArrow(visit, "id long")
            total = rows.groupBy().sum("id").collect()[0][0]
        except Exception as error:  # of Spark, of py4j, or of what ran in a task
            if passed.is_set():
                says = f"no executor took the job in {_JOB_SECONDS:g} s"
                return Finding("job", "bad", says, "does the master have workers with free cores?")
            return Finding("job", "bad", _cause(error), "see stderr")
    if total != 499_500:
        return Finding("job", "bad", f"the sum of 0 … 999 came out as {total}", "see stderr")
    took = time.monotonic() - began
    return Finding("job", "ok", f"two tasks reached the server and added up, in {took:.1f} s")


@contextmanager
def _deadline(spark: SparkSession) -> Iterator[threading.Event]:
    """Jobs of this thread are cancelled when they take too long; the event says that they did."""
    passed, done = threading.Event(), threading.Event()
    group = f"holdfast-doctor-{os.getpid()}"

    def watch() -> None:
        if done.wait(_JOB_SECONDS):
            return
        passed.set()
        # Again and again: what is not submitted yet cannot be cancelled.
        while not done.wait(0.5):
            spark.sparkContext.cancelJobGroup(group)

    watcher = threading.Thread(target=watch, name=group, daemon=True)
    spark.sparkContext.setJobGroup(group, "holdfast spark doctor")
    watcher.start()
    try:
        yield passed
    finally:
        done.set()
        watcher.join()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


# ---- small things -------------------------------------------------------------------------


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _spark_in(home: Path) -> str | None:
    """The version of a Spark, by the name of one of its jars."""
    for jar in home.glob("jars/spark-core_*.jar"):
        return jar.stem.rpartition("-")[2]
    return None


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(str(n) for n in numbers)


def _cause(error: Exception) -> str:
    """One line: an error that came through Java carries the stacks of both languages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("holdfast.errors.")]
    return (ours or lines or [type(error).__name__])[0]
