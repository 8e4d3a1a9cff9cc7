"""A plain function with a time limit, in a process that has other things to do as well.

It runs in a thread beside; when its time is up, an exception is raised in that thread, which Python delivers
at its next bytecode. A function that does not heed that for a moment, for example because it waits in C, is
left behind: Python cannot end a thread. Rejected: SIGALRM, which reaches the main thread only.
"""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from contextvars import copy_context

from holdfast.tasks.alone import Ended
from holdfast.tasks.attempt import Attempt
from holdfast.tasks.outcomes import TaskTimeout

log = logging.getLogger("holdfast.worker")

# How long a handler has to heed the end of its time.
_HEED = 1.0


def within(limit: float, call: Callable[[Attempt], Ended], attempt: Attempt) -> Ended:
    """What `call` answers, or a TaskTimeout; `attempt.context.timed_out` tells the handler, and us."""
    ended: list[Ended] = []
    ending = threading.Lock()

    def end(answer: Ended) -> None:
        with ending:
            ended.append(answer)

    def run() -> None:
        try:
            end(call(attempt))
        except BaseException as error:  # the interruption, when the handler had just ended
            end((None, error))

    thread = threading.Thread(
        target=copy_context().run, args=(run,), name="holdfast-task", daemon=True
    )
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        with ending:
            # The number of a thread that has ended may be another's by now.
            if not ended:
                attempt.context.timed_out = True
                ident = ctypes.c_ulong(thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(TaskTimeout))
        thread.join(_HEED)
    if not ended:
        name, task_id = attempt.context.task, attempt.context.id
        log.error("%s %s does not end after its timeout; it is left behind", name, task_id)
    return ended[0] if ended else (None, TaskTimeout())
