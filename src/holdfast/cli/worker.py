"""holdfast worker: run the tasks of an app, until told to stop."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli import durations
from holdfast.cli.options import Json, Url
from holdfast.errors import InvalidArgument

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_LEAST_MEMORY = 16 * 1024 * 1024


def size(text: str, what: str) -> int:
    """512M, 2GB, 1.5 GiB as bytes; each unit is 1024 of the one below. Raises InvalidArgument."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise InvalidArgument(f"{what}: {text!r} is not a size; write 512M or 2G")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))


def worker(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:APP",
            help="The app, as Python imports it from the current folder: shop.tasks:app. MODULE alone if "
            "it has one app.",
        ),
    ],
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="A:3,B,…",
            help="Queues to serve; A:3 is looked at three times as often as B.",
            show_default="all of the app's",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Queues in the order given: B only when A has nothing."),
    ] = False,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", "-c", metavar="N", help="Tasks at a time, in each process.", min=1
        ),
    ] = 16,
    processes: Annotated[
        int, typer.Option("--processes", "-p", metavar="N", help="Worker processes.", min=1)
    ] = 1,
    cpu_processes: Annotated[
        int,
        typer.Option(
            metavar="N",
            help='For tasks with run="process", in each worker process.',
            show_default="the cores",
            min=0,
        ),
    ] = 0,
    lease: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Of each task; kept up.", show_default="the queue's"),
    ] = None,
    deadline: Annotated[
        str,
        typer.Option(metavar="TIME", help="When stopped: for what runs, then it is given back."),
    ] = "30s",
    once: Annotated[
        bool, typer.Option("--once", help="End when there was nothing to do for --idle.")
    ] = False,
    idle: Annotated[str, typer.Option(metavar="TIME", help="For --once.")] = "1s",
    reload: Annotated[
        bool,
        typer.Option("--reload", help="Start anew when a Python file below this folder changes."),
    ] = False,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of each process, e.g. 512M; a task that asks for more fails. Linux.",
            show_default=False,
        ),
    ] = None,
    max_tasks: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Replace a process after so many tasks; against leaks.",
            show_default="never",
            min=0,
        ),
    ] = 0,
    metrics_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            help="For Prometheus, on 127.0.0.1; the second process has PORT + 1 …",
            show_default="off",
            min=0,
            max=65535,
        ),
    ] = 0,
    scheduler: Annotated[
        bool, typer.Option("--scheduler/--no-scheduler", help="Send the app's cron ticks.")
    ] = True,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="In logs and in top.", show_default="host:pid")
    ] = "",
    log_level: Annotated[
        str, typer.Option(metavar="debug|info|warning|error", help="On stderr.")
    ] = "info",
    url: Url = None,
    json: Json = False,
) -> None:
    """Run the tasks of an app, until SIGTERM or Ctrl-C.

    Coroutines run on the event loop, other functions in threads, and those with
    run="process" in processes of their own. Nothing is lost: a task is acked when it is
    done, and what a killed worker had comes back when its lease ends.

    The first signal: no more tasks are taken, those that run may finish until --deadline,
    and what is left is given back. The second: now. Processes that die are replaced.

    \b
    holdfast worker shop.tasks:app
    holdfast worker shop.tasks:app --queues emails:3,default -c 50 --processes 2
    holdfast worker shop.tasks:app --reload --log-level debug   (while you write it)
    holdfast worker shop.tasks:app --once                       (do what is there)
    """
    # Here, since no other command should wait for these to be imported.
    from holdfast.cli import worker_output
    from holdfast.worker import shares
    from holdfast.worker.orders import Config
    from holdfast.worker.supervisor import Supervisor

    config = Config(
        target=target,
        url=url if _is_given(context, "url") else None,
        queues=[(s.queue, s.weight) for s in shares.parse(queues)] if queues is not None else None,
        strict=strict,
        concurrency=concurrency,
        cpu_processes=cpu_processes,
        lease=durations.optional_seconds(lease, "--lease"),
        deadline=durations.seconds(deadline, "--deadline"),
        idle=durations.seconds(idle, "--idle") if once else None,
        scheduler=scheduler,
        name=name,
        memory_limit=size(memory_limit, "--memory-limit") if memory_limit else 0,
        max_tasks=max_tasks,
        metrics_port=metrics_port,
        log_level=_level(log_level),
        json=json,
    )
    if config.memory_limit and config.memory_limit < _LEAST_MEMORY:
        raise InvalidArgument(f"--memory-limit: {memory_limit} is less than Python itself takes")
    shown = worker_output.Shown(config, processes, json=json, reload=reload)

    async def run() -> None:
        # What a signal handler or a timer needs is the loop.
        supervisor = Supervisor(config, processes, shown.hear, Path.cwd() if reload else None)
        try:
            await supervisor.run()
        finally:
            shown.end(supervisor.totals())

    asyncio.run(run())


def _level(text: str) -> str:
    levels = ("debug", "info", "warning", "error")
    if text.lower() not in levels:
        raise InvalidArgument(f"--log-level: {text!r} is none of {', '.join(levels)}")
    return text.lower()


def _is_given(context: typer.Context, option: str) -> bool:
    """On the command line: an app that names its server itself is not to be led astray by a variable."""
    here = {context, context.find_root()}
    sources = [each.get_parameter_source(option) for each in here]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)
