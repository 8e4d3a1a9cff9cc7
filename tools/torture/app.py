"""Tasks whose handlers note that they ran. Where, and on which server, is in the environment."""

from __future__ import annotations

import os
from pathlib import Path

import holdfast
from tools.torture.history import History

QUEUE = "tasks"

app = holdfast.App(
    os.environ.get("TORTURE_URL"),
    queue=os.environ.get("TORTURE_TASKS", QUEUE),
    replicas=int(os.environ.get("TORTURE_REPLICAS", "0")),
    check="off",
    result_ttl=60,
)
_histories = Path(os.environ.get("TORTURE_HISTORIES", "."))
_history: History | None = None


def _note(body: str) -> None:
    global _history
    if _history is None:
        _history = History(_histories / f"worker-{os.getpid()}.jsonl")
    _history.note("got", who="worker", place=QUEUE, body=body, id=holdfast.current().id)


@app.task(retries=10)
def in_thread(body: str) -> str:
    _note(body)
    return body


@app.task(retries=10)
async def in_loop(body: str) -> str:
    _note(body)
    return body
