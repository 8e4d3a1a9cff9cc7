"""What a type checker knows about tasks: as much as about the functions they were made from.

Not run: mypy reads it in `make check`, where it complains about a call that is right, and as well about an
ignore that ignores nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime

import holdfast

app = holdfast.App()


@app.task(queue="emails", priority=5, retries=5, timeout=30)
def send_welcome(user_id: int, template: str = "hi") -> str:
    return template


@app.task
async def fetch(url: str) -> bytes:
    return b""


@app.cron("*/5 * * * *", tz="Europe/Paris")
def sweep() -> None: ...


def right() -> tuple[str, bytes, str]:
    text: str = send_welcome.send(42).result(timeout=10)
    later: holdfast.Handle[str] = send_welcome.send_at(datetime.now(UTC), 42, template="x")
    send_welcome.send_in(60, 42)
    many: list[holdfast.Handle[str]] = send_welcome.send_many(
        [(1,), {"user_id": 2}, send_welcome.job(3)]
    )
    data: bytes = fetch.send("https://example.org").result()
    plain: str = send_welcome(1)
    send_welcome.using(priority=9).send(1, "x")
    return text + plain, data, later.id + many[0].id


async def right_on_a_loop() -> bytes:
    page: bytes = await fetch("https://example.org")
    handle = await fetch.send_async("https://example.org")
    again: bytes = await handle.result_async()
    return page + again


def wrong() -> tuple[int, str]:
    send_welcome.send("42")  # type: ignore[arg-type]
    send_welcome.send()  # type: ignore[call-arg]
    send_welcome.send_in(60, 42, colour=1)  # type: ignore[call-arg]
    send_welcome.using(priority=9).send(None)  # type: ignore[arg-type]
    app.task(queue=7)  # type: ignore[call-overload]
    number: int = send_welcome.send(1).result()  # type: ignore[assignment]
    text: str = fetch.send("x").result()  # type: ignore[assignment]
    return number, text
