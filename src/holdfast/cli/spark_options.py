"""What the commands of `holdfast spark` share: where Spark runs, and the packages it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from holdfast.errors import Unsupported

Master = Annotated[
    str | None,
    typer.Option(
        metavar="MASTER",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://….",
        show_default="local[*]",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; repeat it."),
]
Packages = Annotated[
    list[str] | None,
    typer.Option("--packages", metavar="MAVEN", help="A package for Spark to fetch; repeat it."),
]

# What the extra brings. A module of the user's own that is missing is the user's to name.
_EXTRA = {"pyspark", "py4j", "pyarrow", "pandas", "numpy"}


@contextmanager
def extra() -> Iterator[None]:
    """Around whatever imports Spark: raises Unsupported, with what to install, where it is absent."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise Unsupported(
            f"holdfast spark needs more packages ({error.name}): pip install 'holdfast[spark]'"
        ) from error
