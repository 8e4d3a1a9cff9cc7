"""A worker process under its supervisor: loads the app, works, and ends in order or at the latest by force.

    supervisor ──config, orders──►  line  ──started, progress, leaving, failed──►  supervisor

    quiet   by an order, a SIGTERM or SIGINT of its own, or because the supervisor is gone
    now     by an order or a second signal
    75      the exit status of a process that could not go on (threads or the loop hang): it is replaced

Whatever hangs, the process ends: the deadline for what runs is the worker's own, and here a thread ends the
process when even that does not work. Nothing is lost then either, since leases end.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from holdfast.client.address import parse
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.settings import AS_SET
from holdfast.tasks.app import App
from holdfast.telemetry import logs
from holdfast.worker import memory, orders
from holdfast.worker.line import ChildEnd, show_output_at_once
from holdfast.worker.loading import load
from holdfast.worker.orders import Config, Failed, Started
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.watch import Watch
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

_BUG = 70
# From the deadline, or from "now", until the process is ended whatever it does.
_FORCE = 10.0
_FORCE_NOW = 3.0


class Process:
    """This process. Orders may come before there is a worker to heed them."""

    BROKEN = 75

    def __init__(self, line: ChildEnd, config: Config) -> None:
        self._line = line
        self._config = config
        self.stopping = False
        self.started = False
        self._leaving = threading.Lock()  # taken for good by whoever says it first
        self._signals = 0
        self._stop: Callable[[orders.Word], None] | None = None
        self.status = 0
        threading.Thread(target=self._listen, name="holdfast-orders", daemon=True).start()

    def run(self) -> int:
        try:
            app = self._load()
            if self.stopping:
                return 0
            _spare_the_collector()
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._work(app))
                # All is settled. Closing waits for threads of handlers; those that hang would keep us here.
                self.force(_FORCE_NOW, self.status)
        except HoldfastError as error:
            self.tell(Failed(error.code, str(error), "\n".join(getattr(error, "__notes__", []))))
            return error.exit_status
        except Exception as error:
            log.exception("the worker failed")
            self.tell(Failed("BUG", f"{type(error).__name__}: {error}"))
            return _BUG
        return self.status

    def _load(self) -> App:
        config = self._config
        logs.setup(config.log_level, config.json)
        app = load(config.target)
        if not app.tasks:
            module = config.target.partition(":")[0]
            raise InvalidArgument(
                f"{config.target} has no tasks; put @app.task over a function, in a module that {module} "
                "imports"
            )
        if config.url:
            app.connect_to(config.url, home=None, durability=None)
        if config.memory_limit:
            memory.limit(config.memory_limit, config.concurrency)
        if config.metrics_port:
            from holdfast.telemetry import metrics

            metrics.start(app, config.metrics_port + config.number)
        return app

    async def _work(self, app: App) -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(app, _plan(app, self._config))

        def stop(word: orders.Word) -> None:
            loop.call_soon_threadsafe(worker.now if word == "now" else worker.quiet)
            loop.call_soon_threadsafe(self.leave, "told")

        def started(_: Worker) -> None:
            self.started = True
            self.tell(_started(worker, self._config))

        self._stop = stop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if self.stopping:
            return
        app.stack.on("worker_started", started)
        watch = Watch(worker, self._config, self)
        try:
            await worker.run()
            watch.idle()
        finally:
            watch.stop()
            await app.close_async()
            app.close()

    # ---- being stopped --------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            while (order := self._line.receive(orders.order)) is not None:
                self.stop(order.word)
            log.warning("the supervisor is gone; stopping")
        except Exception:
            log.exception("the supervisor cannot be heard any more; stopping")
        self.stop("quiet")

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        log.info("%s: %s", number.name, "stopping" if self._signals == 1 else "stopping at once")
        self.stop("quiet" if self._signals == 1 else "now")

    def stop(self, word: orders.Word) -> None:
        """From any thread."""
        self.force(_FORCE_NOW if word == "now" else self._config.deadline + _FORCE)
        self.stopping = True
        if self._stop is not None:
            with suppress(RuntimeError):  # the loop is closed: we are done
                self._stop(word)

    def leave(self, why: orders.Why, text: str = "") -> None:
        """Tell the supervisor, once: the first reason counts. From any thread."""
        if self._leaving.acquire(blocking=False):
            self.tell(orders.Leaving(why, text))

    def force(self, seconds: float, status: int = BROKEN) -> None:
        """End by then, whatever hangs."""
        timer = threading.Timer(seconds, self.end, (status,))
        timer.daemon = True
        timer.start()

    def end(self, status: int = BROKEN) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)

    def tell(self, message: orders.Told) -> None:
        with suppress(OSError):  # nobody is there to hear it
            self._line.send(message)


def _plan(app: App, config: Config) -> Plan:
    names = app.queues
    queues = config.queues or [(name, 1) for name in names]
    for name, _ in queues:
        if name not in names:
            log.warning(
                "no task of this app goes to the queue %r; its tasks go to %s",
                name,
                ", ".join(names),
            )
    options: dict[str, Any] = {"name": config.name} if config.name else {}
    return Plan(
        [Share(*queue) for queue in queues],
        concurrency=config.concurrency,
        strict=config.strict,
        processes=config.cpu_processes,
        lease=AS_SET if config.lease is None else config.lease,
        deadline=config.deadline,
        idle=config.idle,
        scheduler=config.scheduler,
        target=config.target,
        **options,
    )


def _started(worker: Worker, config: Config) -> Started:
    plan, app = worker.plan, worker.app
    server = parse(worker.desk.client.url).safe
    embedded = not (app.connection["url"] or os.environ.get("HOLDFAST_URL"))
    return Started(
        name=worker.name,
        pid=os.getpid(),
        target=config.target,
        tasks={name: task.definition.queue for name, task in sorted(app.tasks.items())},
        queues=[(share.queue, share.weight) for share in plan.shares],
        strict=plan.strict,
        concurrency=plan.concurrency,
        server=f"embedded, {server}" if embedded else server,
    )


def _spare_the_collector() -> None:
    """What the app has loaded stays, and what tasks make is mostly freed by counting references: Python's
    search for cycles among thousands of short-lived objects took a quarter of a small task's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def main() -> NoReturn:
    line = ChildEnd(int(sys.argv[1]))
    config = line.receive(orders.config)
    if config is None:
        sys.exit(0)
    show_output_at_once()
    sys.exit(Process(line, config).run())


if __name__ == "__main__":
    main()
