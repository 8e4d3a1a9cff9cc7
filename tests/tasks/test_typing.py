"""What a type checker knows about tasks: as much as about the functions they were made from."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

RIGHT = """
from datetime import UTC, datetime
import holdfast

app = holdfast.App()


@app.task(queue="emails", priority=5, retries=5, timeout=30)
def send_welcome(user_id: int, template: str = "hi") -> str:
    return template


@app.task
async def fetch(url: str) -> bytes:
    return b""


text: str = send_welcome.send(42).result(timeout=10)
later: holdfast.Handle[str] = send_welcome.send_at(datetime.now(UTC), 42, template="x")
send_welcome.send_in(60, 42)
more: list[holdfast.Handle[str]] = send_welcome.send_many([(1,), {"user_id": 2}, send_welcome.job(3)])
data: bytes = fetch.send("https://example.org").result()
plain: str = send_welcome(1)


async def main() -> None:
    page: bytes = await fetch("https://example.org")
    handle = await fetch.send_async("https://example.org")
    again: bytes = await handle.result_async()
    send_welcome.using(priority=9).send(1, "x")


@app.cron("*/5 * * * *", tz="Europe/Paris")
def sweep() -> None: ...
"""

WRONG = {
    'send_welcome.send("42")': 'has incompatible type "str"; expected "int"',
    "send_welcome.send()": 'Missing positional argument "user_id"',
    "send_welcome.send_in(60, 42, colour=1)": 'Unexpected keyword argument "colour"',
    "number: int = send_welcome.send(1).result()": "Incompatible types in assignment",
    "send_welcome.using(priority=9).send(None)": 'expected "int"',
    "app.task(queue=7)": "No overload variant",
    "wrong: str = fetch.send('x').result()": "Incompatible types in assignment",
}


def check(text: str, folder: Path) -> str:
    file = folder / "shop.py"
    file.write_text(text)
    config = folder / "mypy.ini"
    config.write_text(
        f"[mypy]\nmypy_path = {ROOT / 'src'}\nstrict = true\nfollow_imports = silent\n"
    )
    said, problems, _ = api.run(
        ["--config-file", str(config), "--cache-dir", str(folder / "c"), str(file)]
    )
    assert not problems
    return said


@pytest.mark.slow
def test_right_calls_pass_and_wrong_ones_are_told(tmp_path: Path) -> None:
    said = check(RIGHT + "\n" + "\n".join(WRONG), tmp_path)
    first = RIGHT.count("\n") + 2
    lines = said.splitlines()
    for number, (call, expected) in enumerate(WRONG.items(), first):
        assert any(f"shop.py:{number}: error" in line and expected in line for line in lines), (
            call,
            said,
        )
    assert not [line for line in lines if "error:" in line and int(line.split(":")[1]) < first], (
        said
    )
