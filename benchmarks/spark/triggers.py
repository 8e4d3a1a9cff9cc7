"""How long the triggers of a query took, as Spark itself tells.

The first trigger of a query is left out: it opens files and starts Python processes. A source is told
what was committed while the next trigger is built, so that the triggers that count pay for
committing as many rows as they read; wall time around the query would measure starting it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Laps

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_PHASES = {"latestOffset": "plan and commit", "addBatch": "read and write"}
_REST = "checkpoint and the rest"
_TRIES = 3
_A_MS = 1_000_000


def run_available(writer: DataStreamWriter, triggers: int, rows_per_trigger: int) -> Laps:
    """Run a query on what is there; the time of all its triggers but the first, by phase."""
    query = started(writer.trigger(availableNow=True))
    query.awaitTermination()
    whole = [p for p in query.recentProgress if p.numInputRows]
    rows = [p.numInputRows for p in whole]
    if rows != [rows_per_trigger] * triggers:
        raise RuntimeError(f"{triggers} triggers of {rows_per_trigger} rows were due, not {rows}")
    return laps([p.durationMs for p in whole[1:]])


def started(writer: DataStreamWriter) -> StreamingQuery:
    """A query whose source is there. Spark gives a source's process ten seconds to come up, and no
    setting for it; on a busy machine that is not always enough, and nothing has happened by then."""
    for _ in range(_TRIES):
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.02)
        if query.isActive or "failed to connect back" not in str(query.exception()):
            break
    return query


def laps(durations: list[Any]) -> Laps:
    found = dict.fromkeys([*_PHASES.values(), _REST], 0)
    for duration in durations:
        left = duration["triggerExecution"]
        for theirs, ours in _PHASES.items():
            took = duration.get(theirs, 0)
            found[ours] += took * _A_MS
            left -= took
        found[_REST] += left * _A_MS
    return found
