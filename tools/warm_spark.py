"""Makes Spark start in a third of the time for the tests. Both parts are made once, in the given environment.

    python tools/warm_spark.py .venv

Python: Spark gives its Python processes PySpark from a zip of sources, which each of them reads and compiles
anew, for two seconds. A folder with the installed package takes the zip's place.

Java: one small Spark program is run, and Java keeps what it had loaded, verified and laid out (class-data
sharing). `.venv/java-options` then holds the options with which the tests start Java; tests/java.py reads
them. An archive that does not fit the Java at hand is passed over by Java itself, without a word, so a stale
one costs time and nothing else. Where none can be made, this says so, and the tests are slower.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pyspark

from holdfast.errors import Unsupported
from holdfast.spark.java import Java, find_java

# A Java that lives for seconds gains nothing from the optimizing compiler or a parallel collector.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What the tests make Spark load: a stream of a queue into files, a shuffle, JSON, Python in between.
_PROGRAM = """
import sys, tempfile
from pyspark.sql import functions as F
import holdfast
from holdfast.spark import session

options, folder = sys.argv[1:]
spark = session.build("warming", "local[2]", {"spark.driver.extraJavaOptions": options})
with holdfast.connect(home=folder + "/home", durability="fast") as hf:
    hf.queue("warm").configure(journal=True)
    hf.queue("warm").send_many({"n": n} for n in range(100))
    rows = spark.readStream.format("holdfast").options(url=hf.url, queue="warm").load()
    out = rows.writeStream.format("parquet").option("path", folder + "/lake")
    out = out.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
    out.start().awaitTermination()
    found = spark.read.parquet(folder + "/lake")
    body = F.from_json(F.col("body").cast("string"), "n INT")
    found = found.withColumn("n", body["n"]).groupBy((F.col("n") % 3).alias("k")).agg(F.sum("n"))
    found.orderBy("k").selectExpr("to_json(struct(*)) AS body").write.format("holdfast").options(
        url=hf.url, queue="warmed").mode("append").save()
    spark.read.format("holdfast").options(url=hf.url, queue="warmed").load().collect()
    spark.read.format("holdfast").options(url=hf.url, journal="warm").load().count()
spark.stop()
"""


def ground(java: Java, folder: Path) -> list[str]:
    """The archive of Java's own classes, which the other one stands on; a trimmed Java comes without."""
    if (java.home / "lib/server/classes.jsa").exists():
        return []
    made = folder / "java.jsa"
    program = str(java.home / "bin/java")
    options = [*SHORT_LIVED.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={made}"]
    subprocess.run([program, *options], check=True, capture_output=True, timeout=300)
    return [str(made)]


def archive(java: Java, folder: Path) -> str:
    """The options that use the archive, which is there now."""
    made = folder / "spark.jsa"
    made.unlink(missing_ok=True)
    below = ground(java, folder)
    dump = [f"-XX:SharedArchiveFile={below[0]}"] if below else []
    options = " ".join([SHORT_LIVED, *dump, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"])
    work = folder / "work"
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, options, str(work)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if not made.exists():
        raise OSError(f"Java {java.version} has written no archive")
    # Warnings of an archive that does not fit would be on Java's stdout, which somebody may read.
    return f"-XX:SharedArchiveFile={os.pathsep.join([*below, str(made)])} -Xlog:disable"


def unzipped(sources: Path) -> None:
    """The package itself in place of the zip that holds a copy of it: its compiled files are kept."""
    if sources.is_dir():
        return
    name = sources.name.partition(".")[0].partition("-")[0]
    package = importlib.util.find_spec(name)
    if package is None or package.origin is None:
        return
    sources.rename(sources.with_name(f"{sources.name}.original"))
    sources.mkdir()
    (sources / name).symlink_to(Path(package.origin).parent)


def main(venv: Path) -> int:
    for sources in Path(pyspark.__file__).parent.glob("python/lib/*.zip"):
        unzipped(sources)
    folder, options = venv / "java", venv / "java-options"
    try:
        java = find_java()
    except Unsupported as error:
        print(f"tests of Spark will fail: {error}", file=sys.stderr)
        return 0
    made_for = f"# Java {java.version} in {java.home}, Spark {version('pyspark')}"
    if options.exists() and options.read_text().startswith(made_for + "\n"):
        return 0
    print("Making Spark start faster: half a minute. Only the first time …", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = archive(java, folder.resolve())
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or ""
        print(f"no archive of Spark's classes, tests are slower: {error}\n{said}", file=sys.stderr)
        found = ""
    options.write_text(f"{made_for}\n{SHORT_LIVED} {found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
