"""`holdfast worker --reload`: what counts as a change, and what happens after one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import holdfast
from holdfast.worker import reloading
from tests.conftest import Servers
from tests.servers import wait_until
from tests.worker.supervised import Crew, Start, crews

APP = """
import holdfast
app = holdfast.App(queue="reload", check="off")

@app.task
def version() -> int:
    return 1
"""


# ---- what is a change ---------------------------------------------------------------------


def test_new_changed_and_removed_python_files_are_changes(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name in ("same.py", "pkg/edited.py", "removed.py", "notes.txt"):
        (tmp_path / name).write_text("1")
    before = reloading.look(tmp_path)
    (tmp_path / "pkg/edited.py").write_text("1 + 1")
    (tmp_path / "removed.py").unlink()
    (tmp_path / "new.py").touch()
    (tmp_path / "notes.txt").write_text("2")
    changed = reloading.changed(before, reloading.look(tmp_path))
    assert changed == [str(tmp_path / name) for name in ("new.py", "pkg/edited.py", "removed.py")]


@pytest.mark.parametrize("folder", [".git", ".venv", "__pycache__", "node_modules", "env/lib"])
def test_files_that_are_not_the_users_own_do_not_count(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "env").mkdir(exist_ok=True)
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / folder / "a.py").touch()
    assert reloading.look(tmp_path) == {}


def test_a_link_in_a_circle_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    (tmp_path / "again").symlink_to(tmp_path)
    assert list(reloading.look(tmp_path)) == [str(tmp_path / "a.py")]


# ---- what happens -------------------------------------------------------------------------


@pytest.fixture
def queue(all_servers: Servers) -> Iterator[holdfast.Queue]:
    with holdfast.connect(all_servers.url("standalone"), check="off") as client:
        found = client.queue("reload")
        found.purge("ready", "delayed", "leased", "dead")
        yield found


@pytest.fixture
def start(tmp_path: Path, all_servers: Servers, queue: holdfast.Queue) -> Iterator[Start]:
    (tmp_path / "shop.py").write_text(APP)
    url = all_servers.url("standalone")
    assert url is not None
    with crews(tmp_path, url) as found:
        yield found


def version(queue: holdfast.Queue, url: str) -> object:
    app = holdfast.App(url, check="off")
    task = app.task(name="version", queue="reload")(lambda: 0)
    try:
        return task.send().result(timeout=20)
    finally:
        app.close()


@pytest.mark.slow
def test_after_a_change_the_new_code_runs(
    start: Start, tmp_path: Path, queue: holdfast.Queue, all_servers: Servers
) -> None:
    url = all_servers.url("standalone") or ""
    crew = start("--reload", "--processes", "2")
    crew.wait_for("started", 2)
    assert version(queue, url) == 1
    (tmp_path / "shop.py").write_text(APP.replace("return 1", "return 22"))
    [changed] = crew.wait_for("changed")
    assert changed["files"] == ["shop.py"]
    crew.wait_for("started", 4)
    assert version(queue, url) == 22
    assert all(event["expected"] for event in crew.of("ended"))
    _stop(crew)


@pytest.mark.slow
def test_a_mistake_in_the_new_code_is_shown_and_the_next_change_mends_it(
    start: Start, tmp_path: Path, queue: holdfast.Queue, all_servers: Servers
) -> None:
    url = all_servers.url("standalone") or ""
    crew = start("--reload", "--processes", "2")
    crew.wait_for("started", 2)
    (tmp_path / "shop.py").write_text(APP + "def oh no\n")
    [failed] = crew.wait_for("failed")
    assert "importing shop fails: SyntaxError" in failed["text"]
    assert "def oh no" in failed["trace"]
    supervisor = psutil.Process(crew.process.pid)
    wait_until(lambda: not supervisor.children(), 20, "both to fail")
    (tmp_path / "shop.py").write_text(APP.replace("return 1", "return 333"))
    crew.wait_for("started", 4)
    assert version(queue, url) == 333
    assert len(crew.of("failed")) == 1, "two processes, one mistake"
    _stop(crew)


@pytest.mark.slow
def test_a_mistake_at_the_start_is_waited_out_too(start: Start, tmp_path: Path) -> None:
    (tmp_path / "shop.py").unlink()
    crew = start("--reload")
    [failed] = crew.wait_for("failed")
    assert "there is no module 'shop'" in failed["text"]
    (tmp_path / "shop.py").write_text(APP)
    crew.wait_for("started")
    _stop(crew)


@pytest.mark.slow
def test_a_task_that_runs_at_a_change_has_two_seconds_and_is_given_back(
    start: Start, tmp_path: Path, queue: holdfast.Queue
) -> None:
    slow = APP.replace("return 1", "import time; open('began', 'w').close(); time.sleep(600)")
    (tmp_path / "shop.py").write_text(slow)
    acked = queue.stats().acked
    queue.send({"task": "version", "args": {}})
    crew = start("--reload")
    wait_until((tmp_path / "began").exists, 20, "the handler")
    (tmp_path / "shop.py").write_text(APP)
    wait_until(lambda: queue.stats().acked == acked + 1, 20, "the task, in the new code")
    _stop(crew)


def _stop(crew: Crew) -> None:
    crew.signal()
    assert crew.end() == 0
