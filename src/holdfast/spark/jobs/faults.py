"""What of Spark's errors a person wants to read: one line, and the class that says what can be done.

Our own errors are raised in Python workers; they come back as text inside a Java exception inside a
streaming one, forty lines of stack around them. Here they become themselves again. What the user's SQL
or paths did wrong is said in Spark's own words, without the stack.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JNetworkError
from pyspark.errors import (
    AnalysisException,
    ParseException,
    PySparkException,
    StreamingQueryException,
)

from holdfast import errors
from holdfast.errors import HoldfastError, InvalidArgument, Unavailable, Unsupported

# The last line of a Python traceback. Where several are chained, the last is the one that counts.
_OURS = re.compile(r"holdfast\.errors\.(\w+): (.+)")
_MISSING = re.compile(r"DATA_SOURCE_NOT_FOUND|ClassNotFoundException|Failed to find.*data source")
_TRACE = re.compile(r"^(\s+at |Caused by: |JVM stacktrace|== .* ==|\s*Traceback )")
_CODE = re.compile(r"^\[[A-Z_.]+\] ")
_AFTER = re.compile(r";?\s*(?:SQLSTATE:|line \d+ pos \d+)")
# How a Python traceback ends: its first line that is not indented.
_THEIRS = re.compile(r"^([A-Za-z_][\w.]*): (.+)", re.M)
_TRACEBACK = "Traceback (most recent call last):"


def translated(error: BaseException) -> HoldfastError:
    """The typed error for whatever a Spark job failed with."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, ConnectionError | Py4JNetworkError) or _gone(error):
        return Unavailable(
            "Spark's Java process ended in the middle of it; nothing is lost. If nobody stopped it, "
            "HOLDFAST_DEBUG=1 shows what it said; start the job again, and it goes on where it was"
        )
    text = str(error)
    if found := _OURS.findall(text):
        name, said = found[-1]
        kind = getattr(errors, name, HoldfastError)
        if isinstance(kind, type) and issubclass(kind, HoldfastError):
            return kind(said.strip())
    if isinstance(error, AnalysisException | ParseException) or "AnalysisException" in text:
        return InvalidArgument(_said(text))
    if _MISSING.search(text):
        return Unsupported(
            f"Spark lacks something: {_short(text)}; name its package with --packages, which needs "
            "a network the first time"
        )
    if isinstance(error, StreamingQueryException | PySparkException) or "py4j" in str(type(error)):
        _, found_trace, trace = text.rpartition(_TRACEBACK)
        if found_trace and (theirs := _THEIRS.search(trace)):
            name = theirs[1].rpartition(".")[2]
            return HoldfastError(
                f"the job failed: {name}: {theirs[2]}; HOLDFAST_DEBUG=1 shows where"
            )
        return HoldfastError(f"the job failed: {_short(text)}; HOLDFAST_DEBUG=1 shows where")
    return HoldfastError(f"the job failed: {type(error).__name__}: {_short(text)}")


def _gone(error: BaseException) -> bool:
    """Py4J asks Java what the error was, and there is nobody to ask."""
    try:
        str(error)
    except Exception:
        return True
    return False


def _said(text: str) -> str:
    """Of an error in SQL: the sentence, without its code and without the plan that follows."""
    return _CODE.sub("", _short(_AFTER.split(text)[0])).rstrip(" ;.")


def _short(text: str) -> str:
    """What it says before the stacks and plans begin, on one line."""
    kept = []
    for line in text.splitlines():
        if _TRACE.match(line):
            break
        if line.strip():
            kept.append(line.strip())
    said = " ".join(kept) or "it does not say why"
    return said if len(said) <= 500 else said[:500] + "…"
