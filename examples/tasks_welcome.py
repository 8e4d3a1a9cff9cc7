"""Tasks: sent here, run by a worker, results back. Some fail; one always does.

A worker is usually a process of its own, in this folder: holdfast worker tasks_welcome:app
"""

from __future__ import annotations

import asyncio
import logging

import holdfast
from holdfast.worker.shares import Share
from holdfast.worker.worker import Plan, Worker

app = holdfast.App(retries=holdfast.Retries(2, first=0.1))


@app.task(queue="example-emails", timeout=30)
def send_welcome(user_id: int, template: str = "hi") -> str:
    if user_id == 13:
        raise ValueError("user 13 has no address")
    if user_id % 5 == 0 and holdfast.current().attempt == 1:
        raise ConnectionError("the mail server is busy")
    return f"{template} {user_id}"


@app.task(queue="example-emails")
async def count_unread(user_id: int) -> int:
    await asyncio.sleep(0.01)
    return user_id * 2


async def work() -> None:
    worker = Worker(app, Plan([Share("example-emails")], concurrency=20, idle=1))
    await worker.run()
    print({name: dict(sorted(found.items())) for name, found in worker.counts.by_task.items()})
    await app.close_async()


def main() -> None:
    logging.basicConfig(level=logging.CRITICAL)  # what fails here does so on purpose
    welcome = send_welcome.send(42, template="hello")
    unread = count_unread.send(21)
    later = send_welcome.send_in(0.5, 7)
    many = send_welcome.send_many([(n,) for n in range(1, 21)])
    print("before:", welcome.status(), later.status())
    asyncio.run(work())
    print("after:", welcome.result(), unread.result(), later.result())
    for handle in many:
        try:
            handle.result()
        except holdfast.TaskFailed as error:
            print("failed:", error)
    app.close()


if __name__ == "__main__":
    main()
