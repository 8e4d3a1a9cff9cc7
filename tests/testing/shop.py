"""An app as users have one: made at import, its server far away."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import holdfast
from holdfast import Retries

app = holdfast.App("redis://far.invalid:6379", retries=Retries(2, first=10, jitter=0))

ran: list[str] = []
threads: list[int] = []


@dataclass
class Order:
    number: int
    paid: bool = False


@app.task(queue="emails")
def welcome(user_id: int, template: str = "hi") -> str:
    threads.append(threading.get_ident())
    return f"{template} {user_id}"


@app.task(queue="emails")
async def newsletter(user_id: int) -> int:
    return user_id


@app.task
def flaky(times: int) -> int:
    """Fails so many times."""
    attempt = holdfast.current().attempt
    if attempt <= times:
        raise ConnectionError(f"attempt {attempt}")
    return attempt


@app.task(queue="orders")
def ship(order: Order) -> list[str]:
    """Sends others, of which one later."""
    welcome.send(order.number)
    welcome.send_in(60, order.number, template="thanks")
    return ["shipped"]


@app.task
def add(first: int, second: int) -> int:
    return first + second


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def nap() -> str:
    if not ran:
        ran.append("nap")
        raise holdfast.Snooze(30)
    return "awake"


@app.task(result_ttl=None)
def insomniac() -> None:
    raise holdfast.Snooze(1)


@app.task
def descend(depth: int) -> int:
    """Each inside the one before, in the inline mode."""
    ran.append(f"in {depth}")
    if depth:
        descend.send(depth - 1)
    ran.append(f"out {depth}")
    return depth


@app.cron("*/5 * * * *")
def sweep() -> None:
    ran.append("sweep")


@app.cron("0 9 * * *", tz="Europe/Paris", queue="reports")
def report() -> None:
    ran.append("report")
