"""What the jobs of `holdfast spark` share: their options, and Spark around them.

Spark's errors end here: whatever a job raises leaves as a typed error with one line to read, and Java's
logs, which say the same in forty, are off unless HOLDFAST_DEBUG is set or spark-submit decides.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import embedded
from holdfast.cli import durations, output
from holdfast.cli.options import pairs
from holdfast.cli.spark_options import extra
from holdfast.errors import HoldfastError, InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.spark.place import Place

Once = Annotated[bool, typer.Option("--once", help="End when what is there now is done.")]
Every = Annotated[
    str,
    typer.Option("--every", metavar="TIME", help="How often to look for more."),
]
MaxRows = Annotated[
    int, typer.Option("--max-rows", metavar="N", help="At most so many rows in a batch.", min=1)
]
MinRows = Annotated[
    int | None,
    typer.Option(
        "--min-rows",
        metavar="N",
        help="Wait for so many, so that files are not too small; for --max-delay at most.",
        min=1,
    ),
]
MaxDelay = Annotated[
    str, typer.Option("--max-delay", metavar="TIME", help="How long to wait for --min-rows.")
]
Subscription = Annotated[
    str | None,
    typer.Option("--subscription", metavar="CONSUMER", help="Whose subscription of the topic."),
]


def place(
    url: str | None,
    queue: str | None,
    topic: str | None = None,
    subscription: str | None = None,
    peer: str = "",
) -> Place:
    """Where a job reads or writes. Executors may stand in another folder than we do."""
    from holdfast.spark.place import Place

    home = None if url else str(embedded.status().home.resolve())
    return Place(url, home, queue, topic, subscription, peer)


def reading(max_rows: int, min_rows: int | None, max_delay: str) -> dict[str, str]:
    """Options of the data source."""
    found = {"maxRowsPerTrigger": str(max_rows)}
    if min_rows is not None:
        seconds = durations.seconds(max_delay, "--max-delay")
        found |= {"minRowsPerTrigger": str(min_rows), "maxTriggerDelay": f"{seconds:g}s"}
    return found


def load(spec: str, option: str) -> Callable[..., Any]:
    """A function; see `find`."""
    found = find(spec, option)
    if not callable(found):
        raise InvalidArgument(f"{option}: {spec} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def find(spec: str, option: str) -> Any:
    """my.module:name. The current folder counts, here and on executors of this machine; to be called
    before Spark starts."""
    module, colon, name = spec.partition(":")
    if not colon or not module or not name:
        raise InvalidArgument(f"{option}: {spec!r} is not MODULE:FUNCTION")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    paths = [here, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise InvalidArgument(f"{option}: there is no module {error.name!r}") from error
        raise InvalidArgument(f"{option}: {module} cannot be imported: {error}") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise InvalidArgument(f"{option}: {module} has no {name!r}") from None
    return found


@contextmanager
def spark(
    job: str, master: str | None, conf: list[str] | None, packages: Sequence[str] | None
) -> Iterator[SparkSession]:
    """A session for one job; stopped afterwards if it was not there before."""
    settings = pairs(conf, "--conf")
    with extra():
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from holdfast.spark import session
        from holdfast.spark.jobs import faults
    there = SparkSession.getActiveSession() is not None
    made = session.build(f"holdfast {job}", master, settings, packages or ())
    if not os.environ.get("HOLDFAST_DEBUG"):
        logging.getLogger("SQLQueryContextLogger").disabled = True
        if not there and not session.submitted():
            made.sparkContext.setLogLevel("OFF")
    try:
        yield made
    except HoldfastError as error:
        for line in getattr(error, "__notes__", []):
            output.note(line, style="yellow")
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise faults.translated(error) from error
    finally:
        if not there:
            with suppress(Py4JError, ConnectionError):  # Java may be gone
                made.stop()
