"""holdfast spark doctor: is this machine ready to run Spark on queues, and what to do if not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

import holdfast
from holdfast.cli import output
from holdfast.cli.options import Json, Url, pairs
from holdfast.cli.spark_options import Conf, Master
from holdfast.spark import doctor as knowledge

_STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}


def doctor(
    master: Master = None,
    quick: Annotated[bool, typer.Option("--quick", help="Look only; start no Spark.")] = False,
    conf: Conf = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Examine what Spark needs: Java, Python packages, the queue server; then run a small job.

    ok: fine. warn: it works, but not as you may expect. bad: jobs will fail. The exit status is 1
    if anything is bad.

    \b
    holdfast spark doctor
    holdfast spark doctor --quick
    holdfast spark doctor --master spark://localhost:7077 --url redis://localhost:6379
    """
    settings = pairs(conf, "--conf")
    findings = knowledge.look(url, master)
    bad = any(finding.level == "bad" for finding in findings)
    ran = not quick and not bad
    if ran:
        findings += knowledge.try_out(url, master, settings)
        bad = any(finding.level == "bad" for finding in findings)
    if json:
        output.emit(
            {
                "ok": not bad,
                "holdfast": holdfast.__version__,
                "job": ran,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        made = output.table("", "what", "finding", "to fix it", fold=("finding", "to fix it"))
        for finding in findings:
            level = Text(finding.level, _STYLES[finding.level])
            made.add_row(level, finding.topic, Text(finding.says), Text(finding.fix))
        output.say(f"holdfast {holdfast.__version__}, for Spark")
        output.show(made)
        output.note(_verdict(bad, ran), style="bold red" if bad else "green")
    if bad:
        raise typer.Exit(1)


def _verdict(bad: bool, ran: bool) -> str:
    if not ran:
        return "something is bad: no job was tried" if bad else "nothing is bad; no job was tried"
    return "something is bad: see above" if bad else "nothing is bad: a job ran"
