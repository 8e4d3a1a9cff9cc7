"""How the tests start Java: quickly, for it lives for seconds.

`make test` has made an archive of the classes that Spark loads, and noted the options that use it
(tools/warm_spark.py). Without it the tests of Spark take about twice as long, and prove the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

_MADE = Path(sys.prefix) / "java-options"

JVM = _MADE.read_text().splitlines()[1].strip() if _MADE.exists() else "-XX:+UseSerialGC"
# For every Java that Spark's own scripts start: driver, launcher, master and workers of a cluster.
VARIABLES = dict.fromkeys(
    ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"), JVM
)
