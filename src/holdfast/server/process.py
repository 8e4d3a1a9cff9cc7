"""A Service as a process: signals, the event loop, what the supervisor is told.

    SIGTERM, SIGINT   stop in order; a second one ends the process at once
    SIGHUP            read the tokens again

A stop in order is exit status 0 by either signal: it is what was asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TextIO

import holdfast
from holdfast.errors import HoldfastError
from holdfast.server import files, logs
from holdfast.server.config import Config
from holdfast.server.logs import event
from holdfast.server.service import Service

log = logging.getLogger("holdfast.server")


def run(config: Config, ready: Callable[[dict[str, str]], None]) -> None:
    """Serve until told to stop. `ready` is called with the address of each door when all are open.

    Raises a HoldfastError if the server cannot start.
    """
    # The one who configured logging may be using the process for something else, in tests at least.
    with logs.to_stderr(config.options.log_format, config.options.log_level):
        warnings.showwarning = _logged
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(config, ready))


async def _serve(config: Config, ready: Callable[[dict[str, str]], None]) -> None:
    service = Service(config)
    told = asyncio.Event()
    _on_signals(service, told)
    event(
        log,
        logging.INFO,
        "starting",
        version=holdfast.__version__,
        pid=os.getpid(),
        server=config.shown()["url"] or "embedded",
        loop=type(asyncio.get_running_loop()).__module__.partition(".")[0],
    )
    wanted = config.limits.connections + files.SPARE
    if (most := files.allow(wanted)) < wanted:
        event(
            log,
            logging.WARNING,
            "open files",
            problem=f"the system allows {most}, {wanted} may be needed; raise `ulimit -n`, or lower "
            "the limit of connections",
        )
    if not await _unless(told, service.start()):
        event(log, logging.INFO, "stopped before it was ready")
        return
    addresses = service.addresses
    ready(addresses)
    event(log, logging.INFO, "ready", **addresses, tls=config.tls is not None)
    notify("READY=1")
    await told.wait()
    notify("STOPPING=1")
    await service.stop()


async def _unless(told: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work; False if told to stop before it is done."""
    doing = asyncio.ensure_future(work)
    hearing = asyncio.ensure_future(told.wait())
    await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
    hearing.cancel()
    if doing.done():
        doing.result()
        return True
    doing.cancel()
    await asyncio.gather(doing, return_exceptions=True)
    return False


def _on_signals(service: Service, told: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if told.is_set():
            _end_now(number)
        event(log, logging.INFO, "told to stop", signal=number.name)
        told.set()

    def reload() -> None:
        try:
            service.reload()
        except HoldfastError as error:
            event(log, logging.ERROR, "tokens not read; the old ones stay", error=str(error))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, reload)


def _end_now(number: signal.Signals) -> NoReturn:
    event(log, logging.WARNING, "ended at once", signal=number.name)
    sys.stderr.flush()
    # Not sys.exit: whatever hangs in the orderly stop would hang in that too.
    os._exit(128 + number)


def notify(state: str) -> None:
    """Tell systemd, if it started us with Type=notify."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto(state.encode(), address)
    except OSError as error:
        event(log, logging.WARNING, "supervisor not told", error=str(error))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _logged(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    event(log, logging.WARNING, "warning", text=str(message))
