"""The jobs of `holdfast spark` as they are typed: arguments, signals, errors, spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pyspark
import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.cli.spark_running import load
from holdfast.errors import InvalidArgument
from tests.cli.conftest import Run, Start
from tests.servers import wait_until

SPARK = ("--master", "local[2]")


# ---- without Spark ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("archive", "orders"), "--to PATH"),
        (("archive", "--topic", "t", "--to", "lake"), "--topic and --subscription"),
        (("archive", "a", "--to", "lake", "--format", "delta", "--compact"), "OPTIMIZE"),
        (("archive", "a", "--to", "lake", "--every", "soon"), "--every"),
        (("bridge", "--from", "a", "--to", "a"), "the same queue"),
        (("bridge", "--from", "topic:a", "--to", "b"), "--subscription"),
        (("bridge", "--from", "a", "--to", "b", "--module", "nowhere:fn"), "no module 'nowhere'"),
        (("work", "json", "--queues", "a"), "MODULE:NAME"),
        (("work", "json:nothing", "--queues", "a"), "has no 'nothing'"),
        (("work", "json:__name__", "--queues", "a"), "neither an App nor a function"),
        (("work", "json:dumps"), "name the queues"),
        (("work", "tests.testing.shop:app", "--queues", "emails:3"), "weights are for"),
    ],
)
def test_a_wrong_call_is_explained_before_spark_starts(
    run: Run, words: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = run("spark", *words)
    assert result.status == 64
    assert why in result.err


@pytest.mark.parametrize(
    "job", ["archive", "compact", "replay", "bridge", "report", "redrive", "work", "program"]
)
def test_each_job_has_help_with_an_example(run: Run, job: str) -> None:
    result = run("spark", job, "--help")
    assert result.status == 0
    assert f"holdfast spark {job}" in result.out or "spark-submit" in result.out


def test_a_function_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_handlers.py").write_text(
        "class A:\n    def go(self): ...\nimport no_such_one\n"
    )
    (tmp_path / "own_transforms.py").write_text("class A:\n    def go(self): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load("own_transforms:A.go", "--module").__name__ == "go"
    # Executors on this machine look there too.
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)
    with pytest.raises(InvalidArgument, match="no_such_one"):
        load("own_handlers:A", "--module")


# ---- with it ------------------------------------------------------------------------------


def bodies(lake: Path) -> list[bytes]:
    found = [pq.ParquetFile(file).read(["body"]) for file in lake.glob("queue=*/day=*/*.parquet")]
    return sorted(body.as_py() for table in found for body in table.column("body"))


def lines(raw: bytes) -> list[Any]:
    return [msgspec.json.decode(line) for line in raw.splitlines()]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.torture)]
)
def test_a_signal_ends_a_job_after_its_batch_with_a_summary(
    start: Start, queue: holdfast.Queue, tmp_path: Path, number: signal.Signals
) -> None:
    lake = tmp_path / "lake"
    queue.send_many([b"%d" % n for n in range(100)])
    words = ("spark", "archive", queue.name, "--to", str(lake), "--json", "--every", "100ms")
    process = start(*words, *SPARK, start_new_session=True)
    wait_until(lambda: queue.stats().reserved > 0, 120, "the first batch")
    # Ctrl-C goes to all processes of a terminal; kill to one.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    [*_, summary] = lines(out)
    assert summary == {"job": "archive", "rows": 100, "to": str(lake), "open": 0}
    assert bodies(lake) == sorted(b"%d" % n for n in range(100))
    assert queue.stats().total == 0


@pytest.mark.slow
@pytest.mark.spark
def test_jobs_run_under_spark_submit_with_the_same_arguments(
    run: Run, queue: holdfast.Queue, tmp_path: Path, server: str
) -> None:
    queue.send_many([b"a", b"b", b"c"])
    program = run("spark", "program").lines[0]
    lake = tmp_path / "lake"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ("--conf", "spark.ui.enabled=false")
    job = ("archive", queue.name, "--to", str(lake), "--once", "--json")
    from holdfast.spark import session

    done = subprocess.run(
        [str(submit), "--master", "local[2]", *settings, program, *job],
        env={**os.environ, **session.environment(), "HOLDFAST_URL": server},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert lines(done.stdout)[-1]["rows"] == 3
    assert bodies(lake) == [b"a", b"b", b"c"]


@pytest.mark.slow
@pytest.mark.spark
def test_handlers_of_the_current_folder_work_on_executors(
    start: Start, queue: holdfast.Queue, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text("def ship(delivery):\n    assert delivery.body == b'x'\n")
    queue.send_many([b"x"] * 20)
    words = ("spark", "work", "shop:ship", "--queues", queue.name, "--once", "--idle", "2")
    process = start(*words, *SPARK, "--json", cwd=tmp_path)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert lines(out)[-1]["queues"] == [
        {"queue": queue.name, "handled": 20, "failed": 0, "dead": 0}
    ]
    assert queue.stats().total == 0


def test_the_program_for_spark_submit_shadows_no_module_of_pythons(run: Run) -> None:
    folder = Path(run("spark", "program").lines[0]).parent
    names = {file.stem for file in folder.glob("*.py")}
    assert not names & set(sys.stdlib_module_names)
    assert main(["spark", "program"]) == 0
