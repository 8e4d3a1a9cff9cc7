"""A project of a user: an app, its tests, and pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import psutil

INI = """
[pytest]
filterwarnings = error
addopts = -p no:cacheprovider
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
"""

SHOP = """
import holdfast

app = holdfast.App()

@app.task(queue="emails")
def welcome(user_id: int) -> str:
    return f"hi {user_id}"
"""

TESTS = """
import pytest
from shop import app, welcome

@pytest.mark.parametrize("n", range(6))
def test_welcome(holdfast_kit, n):
    kit = holdfast_kit(app)
    handle = welcome.send(n)
    assert len(kit.sent()) == 1
    kit.run()
    assert handle.result(0) == f"hi {n}"

async def test_async(holdfast_kit):
    kit = holdfast_kit(app)
    handle = await welcome.send_async(1)
    assert (await kit.run_async()).succeeded == 1
    assert await handle.result_async(0) == "hi 1"

def test_is_clean(holdfast_app, holdfast_server):
    print("server at", holdfast_server)
    assert holdfast_app.desk().client.queues() == []

    @holdfast_app.task
    def mine() -> int:
        return 1

    mine.send()
"""


class Project:
    """A folder with an app and tests, and pytest in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        (folder / "pytest.ini").write_text(INI)
        self.tests(TESTS)

    def tests(self, text: str) -> None:
        (self.folder / "test_shop.py").write_text(text)

    def pytest(self, *arguments: str) -> tuple[int, str]:
        installed = any(e.name == "holdfast" for e in entry_points(group="pytest11"))
        plugin = () if installed else ("-p", "holdfast.testing.plugin")
        command = [sys.executable, "-m", "pytest", *plugin, *arguments]
        done = subprocess.run(
            [*command, f"--basetemp={self.folder / 'tmp'}"],
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if not k.startswith(("HOLDFAST", "PYTEST"))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    def left_running(self) -> list[int]:
        """Processes that were started for a folder below this one."""
        here = str(self.folder)
        return [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if any(here in word for word in process.info["cmdline"] or ())
        ]
