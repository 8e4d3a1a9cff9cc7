"""holdfast spark: the group, and the list of its commands.

Nothing here imports PySpark: `holdfast --help` must not wait for it, nor need it.
"""

from __future__ import annotations

from typing import Any

import typer

from holdfast.cli import spark_doctor, spark_jobs

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="The data pipeline: queues, topics and journals through Spark. `holdfast spark doctor` "
    "tells whether this machine is ready for it.",
)

_COMMANDS: list[Any] = [*spark_jobs.COMMANDS, spark_doctor.doctor]
for _command in _COMMANDS:
    app.command()(_command)
