"""A SparkSession that finds its Java and its Python, and knows the "holdfast" format.

A process has one Spark. Where one runs already (a notebook, a test, a job that calls another) it is
used as it is; under spark-submit the submitter's settings stand and only what correct results need
is added; else one is started, on this machine unless told otherwise.

Where to find Java and Python is said in variables, not in conf: both must be known before Spark's own
launcher runs. The address of a queue server is never put in conf, for Spark shows conf in its UI
and writes it to its event log, passwords included; it belongs in an option of the data source.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from holdfast.errors import InvalidArgument, Unavailable, Unsupported
from holdfast.spark import register
from holdfast.spark.java import find_java

LOCAL = "local[*]"
_MASTER = re.compile(r"local(\[[^\]]+\])?|local-cluster\[[^\]]+\]|spark://.+|yarn|k8s://.+")
_SERVER_WITH_PASSWORD = re.compile(r"(?:rediss?|valkeys?|grpcs?)://[^/@\s]*:[^/@\s]+@")
_KNOCK_SECONDS = 5.0
_STDERR = 2

# A timestamp has one meaning, and so has the day that it falls on, wherever the driver runs.
_ALWAYS = {"spark.sql.session.timeZone": "UTC"}
_UNLESS_SUBMITTED = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def build(
    app: str,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
) -> SparkSession:
    """The session of this process, started if there is none; format("holdfast") is registered in it.

    `master` is local[*] unless given here or to spark-submit. `conf` wins over every default;
    `packages` are Maven coordinates, and need a network the first time. What Java prints goes to
    stderr, the console sink of Spark included.

    Raises Unsupported when there is no Java, Unavailable when no Spark master answers, and
    InvalidArgument for a master or a setting that cannot work.

        spark = session.build("nightly", "local[4]", {"spark.driver.memory": "2g"})
    """
    settings = dict(conf or {})
    _refuse_passwords(settings)
    if packages:
        named = [name for name in settings.get("spark.jars.packages", "").split(",") if name]
        settings["spark.jars.packages"] = ",".join([*named, *packages])
    session = SparkSession.getActiveSession()
    if session is not None:
        _adjust(session, settings)
    elif submitted():
        session = _started(_ALWAYS | settings | ({"spark.master": master} if master else {}))
    else:
        chosen = master or settings.get("spark.master") or LOCAL
        check_master(chosen)
        os.environ.update(environment(chosen))
        settings = _ALWAYS | _UNLESS_SUBMITTED | _paths(chosen) | {"spark.app.name": app} | settings
        settings["spark.master"] = chosen
        _launch(settings)
        session = _started(settings)
    register(session)
    return session


def environment(master: str = LOCAL) -> dict[str, str]:
    """The variables that Spark's own programs (spark-submit, spark-class) need in order to start.

    What is set already stays, but for a JAVA_HOME that Spark cannot run on.
    """
    found = {"JAVA_HOME": str(find_java().home)}
    if master.startswith(("local", "spark://")):
        # Workers of a cluster elsewhere have their own; those on this machine share ours.
        found["PYSPARK_PYTHON"] = sys.executable
    if _on_this_machine(master):
        # Else Spark looks for the address of this machine's name, which may be none of its own.
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
    if not {"SPARK_CONF_DIR", "SPARK_HOME"} & os.environ.keys():
        found["LOG4J_CONFIGURATION_FILE"] = str(Path(__file__).with_name("log4j2.properties"))
    return {
        name: value
        for name, value in found.items()
        if name == "JAVA_HOME" or not os.environ.get(name)
    }


def submitted() -> bool:
    """Whether spark-submit started this process: Java runs, and the master is chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_master(master: str) -> None:
    """Raises InvalidArgument for what is no master, Unavailable for one that does not answer.

    Spark itself would try for a minute.
    """
    if not _MASTER.fullmatch(master):
        raise InvalidArgument(
            f"no Spark master: {master!r}; give local[N], spark://HOST:PORT, yarn or k8s://…"
        )
    failures: list[str] = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), _KNOCK_SECONDS).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if failures:
        raise Unavailable(
            f"no Spark master answers at {master} ({'; '.join(failures)}); start one, or leave "
            "--master out to run on this machine"
        )


# ---- starting -----------------------------------------------------------------------------


def _started(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _launch(settings: Mapping[str, str]) -> None:
    """Java, as PySpark would start it, with two differences.

    Its stdout is not ours, which may be a pipe to somebody. And a signal to our process group, as
    shells and service managers send it, does not end it under a job that is about to stop by
    itself; it ends with us in any case, by the pipe that is its stdin.
    """
    if SparkContext._gateway is not None:
        return  # of a session that was stopped; PySpark uses it again
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        gateway = launch_gateway(conf, {"stdout": _STDERR, "start_new_session": True})
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise Unsupported(
            f"Java in {os.environ.get('JAVA_HOME')} ended before Spark was up; it has said why on "
            "stderr; `holdfast spark doctor` looks at each part"
        ) from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def _adjust(session: SparkSession, settings: Mapping[str, str]) -> None:
    """The running session with these settings, as far as one that runs can take them."""
    for name, value in settings.items():
        if session.conf.get(name, None) == value:
            continue
        if not session.conf.isModifiable(name):
            raise InvalidArgument(
                f"{name} cannot be set once Spark runs, and it runs already; set it where Spark is "
                "started"
            )
        session.conf.set(name, value)


def _refuse_passwords(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if _SERVER_WITH_PASSWORD.search(value):
            raise InvalidArgument(
                f"{name} holds the password of a server, and Spark shows its settings in its UI and "
                "event log; give the URL as an option of the data source, or in HOLDFAST_URL"
            )


def _paths(master: str) -> dict[str, str]:
    """What this process has on PYTHONPATH, for executors that a worker starts and not we."""
    mine = os.environ.get("PYTHONPATH")
    if not mine or not _on_this_machine(master):
        return {}
    whole = [str(Path(part).resolve()) for part in mine.split(os.pathsep) if part]
    return {"spark.executorEnv.PYTHONPATH": os.pathsep.join(whole)}


def _addresses(master: str) -> list[tuple[str, int]]:
    if not master.startswith("spark://"):
        return []
    found = []
    for part in master.removeprefix("spark://").split(","):
        host, colon, port = part.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidArgument(f"no Spark master: {master!r}; a port is missing: {part!r}")
        found.append((host.strip("[]"), int(port)))
    return found


def _on_this_machine(master: str) -> bool:
    here = {"localhost", "127.0.0.1", "::1"}
    return master.startswith("local") or any(host in here for host, _ in _addresses(master))
