"""What session.build gives: in this process, under spark-submit, and on a cluster of Spark's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pyspark
import pytest
from pyspark.sql import SparkSession

from holdfast.errors import InvalidArgument, Unavailable
from holdfast.spark import session
from tests.servers import free_port
from tests.spark.cluster import spark_cluster
from tests.spark.programs import java, python, shell, spark_shell


def test_a_session_keeps_time_in_utc_and_to_this_machine(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "localhost"
    assert spark.sparkContext.uiWebUrl is None


def test_python_workers_run_this_python(spark: SparkSession) -> None:
    def which(_: int) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([1], 1).map(which).collect() == [sys.executable]


def test_the_format_is_registered(spark: SparkSession) -> None:
    assert spark.read.format("holdfast").option("queue", "orders").load().columns


# ---- a Spark that runs already ------------------------------------------------------------


def test_a_running_session_is_used(spark: SparkSession) -> None:
    again = session.build("another", "local[1]")
    assert again.sparkContext is spark.sparkContext
    assert again.sparkContext.master == "local[2,3]"


def test_a_running_session_takes_settings_that_can_still_be_changed(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        session.build("another", conf={"spark.sql.shuffle.partitions": "3"})
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.usefixtures("spark")
def test_a_running_session_refuses_settings_that_come_too_late() -> None:
    with pytest.raises(InvalidArgument, match=r"spark\.driver\.memory cannot be set once"):
        session.build("another", conf={"spark.driver.memory": "3g"})
    with pytest.raises(InvalidArgument, match=r"spark\.jars\.packages cannot be set once"):
        session.build("another", packages=["org.example:some_2.13:1.0"])


# ---- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379",
        "rediss://me:secret@host",
        "valkey://me:secret@a,b",
        "grpc://t:o@h",
    ],
)
def test_the_password_of_a_server_never_gets_into_the_settings(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        session.build("leak", conf={"spark.holdfast.url": url})
    assert "spark.holdfast.url" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("master", ["", "locale:", "sc://host:15002", "host:7077", "mesos://host"])
def test_what_is_no_master_is_refused_before_spark_starts(master: str) -> None:
    with pytest.raises(InvalidArgument, match="no Spark master"):
        session.check_master(master)


@pytest.mark.parametrize("master", ["spark://host", "spark://host:x", "spark://a:7077,b"])
def test_a_master_needs_a_port(master: str) -> None:
    with pytest.raises(InvalidArgument, match="a port is missing"):
        session.check_master(master)


def test_a_master_that_does_not_answer_is_said_at_once() -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}: Connection refused"):
        session.check_master(f"spark://127.0.0.1:{port}")


# ---- variables ----------------------------------------------------------------------------


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("SPARK_CONF_DIR", "mine")
    monkeypatch.delenv("LOG4J_CONFIGURATION_FILE", raising=False)
    assert session.environment().keys() == {"JAVA_HOME"}


def test_a_java_home_that_will_not_do_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = java(tmp_path / "old", "11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert session.environment()["JAVA_HOME"] != str(old)


@pytest.mark.slow
def test_a_cluster_elsewhere_has_a_python_and_an_address_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    assert {"PYSPARK_PYTHON", "SPARK_LOCAL_IP"} <= session.environment("local[4]").keys()
    assert {"PYSPARK_PYTHON", "SPARK_LOCAL_IP"}.isdisjoint(session.environment("yarn"))
    assert "SPARK_LOCAL_IP" not in session.environment("spark://example.org:7077")


# ---- processes of their own ---------------------------------------------------------------

DRIVER = """
import json, sys
from holdfast.spark import session
spark = session.build("from the code")
conf = spark.sparkContext.getConf()
total = spark.range(100).groupBy().sum().collect()[0][0]
assert spark.read.format("holdfast").option("queue", "orders").load().columns
names = ("spark.app.name", "spark.master", "spark.ui.enabled", "spark.sql.session.timeZone")
with open(sys.argv[1], "w") as file:
    json.dump({"total": total, **{name: conf.get(name) for name in names}}, file)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.torture
def test_under_spark_submit_the_submitters_settings_stand(tmp_path: Path) -> None:
    script, out = tmp_path / "driver.py", tmp_path / "out.json"
    script.write_text(DRIVER)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ["--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0"]
    ran = subprocess.run(
        [submit, "--master", "local[1]", "--name", "theirs", *settings, script, out],
        env=spark_shell(TZ="Asia/Tokyo"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert msgspec.json.decode(out.read_bytes()) == {
        "total": 4950,
        "spark.app.name": "theirs",
        "spark.master": "local[1]",
        "spark.ui.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }


@pytest.mark.slow
@pytest.mark.spark
def test_a_java_that_ends_at_once_is_an_error_of_ours() -> None:
    code = """
from holdfast.errors import Unsupported
from holdfast.spark import session
try:
    session.build("too small", "local[1]", {"spark.driver.memory": "1k"})
except Unsupported as error:
    print(error)
"""
    ran = python(code, shell())
    assert ran.stdout.startswith("Java in "), ran.stderr  # what Java says is not on our stdout
    assert "ended before Spark was up" in ran.stdout
    assert "heap" in ran.stderr


STOPPING = """
import signal, threading
from holdfast.spark import session
spark = session.build("stopping", "local[1]")
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
print("ready", flush=True)
told.wait()  # not signal.pause(), for which the signal may come too early
print(spark.range(7).count(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_driver_that_is_told_to_stop_has_its_java_until_it_does() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STOPPING],
        env=shell(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as driver:
        assert driver.stdout
        try:
            assert driver.stdout.readline() == "ready\n"
            os.killpg(driver.pid, signal.SIGTERM)
            assert driver.stdout.read() == "7\n"
        finally:
            driver.kill()
    assert driver.returncode == 0


CLUSTER_DRIVER = """
import sys
from holdfast.spark import session
from tests.spark.cluster import EXECUTOR

def visit(batches):
    import os
    import holdfast, only_on_my_path
    import pyarrow as pa
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"executor": [os.getppid()]})

spark = session.build("on a cluster", sys.argv[1], EXECUTOR)
visited = spark.range(0, 4, 1, 4).mapInArrow(visit, "executor long").count()
print(visited, spark.sparkContext.master)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.torture
def test_executors_of_a_standalone_cluster_import_what_the_driver_does(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "only_on_my_path.py").write_text("")
    env = shell()
    env["PYTHONPATH"] += os.pathsep + os.pathsep.join([str(tmp_path / "mine"), str(Path.cwd())])
    with spark_cluster(tmp_path, workers=1) as url:
        ran = python(CLUSTER_DRIVER, env, url)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["4", url]
