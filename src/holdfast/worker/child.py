"""A process for CPU-bound tasks: one attempt after the other, in its main thread.

It holds no lease and settles nothing; it is free to die. Whoever asked it to work notices, and kills it
when its time is up. It ends with its worker, in the middle of a handler too: a thread waits for the line to
be hung up, and takes along whatever the handler has started.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from holdfast.tasks import context as contexts
from holdfast.tasks.app import App
from holdfast.tasks.attempt import Attempt, Verdict, open_delivery
from holdfast.telemetry import logs
from holdfast.worker.crossing import Carried, Hello, Ready, Request, answer
from holdfast.worker.line import ChildEnd, show_output_at_once
from holdfast.worker.loading import load

_hello = msgspec.msgpack.Decoder(Hello)
_request = msgspec.msgpack.Decoder(Request | None)


def main() -> None:
    line = ChildEnd(int(sys.argv[1]))
    _end_with_parent(line)
    # A service that is stopped as a whole signals every process of it: the worker decides what that means.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    hello = line.receive(_hello)
    if hello is None:
        return
    try:
        app = _prepare(hello)
    except BaseException as error:
        line.send(Ready(f"{type(error).__name__}: {error}"))
        return
    line.send(Ready())
    while (request := line.receive(_request)) is not None:
        line.send(answer(_attempt(app, request), value=request.value))


def _prepare(hello: Hello) -> App:
    sys.path[:] = hello.path
    show_output_at_once()
    if hello.log_level:
        logs.setup(hello.log_level, hello.log_json)
    app = load(hello.target)
    app.connect_to(**hello.connection)
    return app


def _attempt(app: App, request: Request) -> Verdict:
    opened = open_delivery(app, Carried(request), request.queue, request.worker)
    if not isinstance(opened, Attempt):
        return opened
    opened.started = opened.context.started = time.monotonic()
    token = contexts.enter(opened.context)
    value: Any = None
    try:
        with app.stack.around(opened.context):
            value = opened.task.function(*opened.args, **opened.kwargs)
    except BaseException as error:  # SystemExit too: it is the task that ends, not the process
        return opened.failed(error)
    finally:
        contexts.leave(token)
    try:
        return opened.succeeded(value)
    except HoldfastError as error:
        return opened.failed(error)


def _end_with_parent(line: ChildEnd) -> None:
    def wait() -> None:
        poll = select.poll()
        poll.register(line.number, 0)  # nothing but the end of the line
        poll.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="holdfast-line", daemon=True).start()


if __name__ == "__main__":
    main()
