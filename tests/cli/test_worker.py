"""holdfast worker: what is wrong with a command line, and what people and scripts get to see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.cli.worker import size
from holdfast.errors import InvalidArgument
from holdfast.worker.loading import load, locate
from tests.cli.conftest import Run

APP = """
import holdfast
app = holdfast.App(queue="{queue}", check="off")

@app.task
async def greet(name: str) -> str:
    print("hello", name)
    return name

@app.task(retries=1)
def fails_once() -> None:
    if holdfast.current().attempt == 1:
        raise holdfast.Retry(in_=0)

@app.task(retries=0)
def fails() -> None:
    raise ValueError("no")
"""

Worker = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def project(tmp_path: Path, queue: holdfast.Queue, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules of apps."""
    folder = tmp_path / "project"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop/__init__.py").touch()
    (folder / "shop/tasks.py").write_text(APP.format(queue=queue.name))
    (folder / "two.py").write_text("import holdfast\none = holdfast.App()\ntwo = holdfast.App()\n")
    (folder / "none.py").write_text("import holdfast\napp = 'shop'\n")
    (folder / "bare.py").write_text("import holdfast\napp = holdfast.App()\n")
    (folder / "broken.py").write_text("import holdfast\n\napp = holdfast.App(quueue='x')\n")
    (folder / "missing.py").write_text("import no_such_library\n")
    (folder / "script.py").write_text("import sys\nsys.exit(5)\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def worker(project: Path) -> Worker:
    """To its end, in that folder."""

    def call(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast.cli.main", "worker", *words],
            capture_output=True,
            cwd=project,
            env=os.environ | environment,
            timeout=60,
            check=False,
        )

    return call


# ---- which app ----------------------------------------------------------------------------

WRONG = {
    "shop.task:app": "there is no module 'shop.task' here or in what is installed; run this in the folder",
    "shoop:app": "there is no module 'shoop'",
    "shop.tasks:ap": "shop.tasks has no 'ap'; did you mean shop.tasks:app?",
    "shop.tasks:greet": "shop.tasks:greet is not an App but an AsyncTask; did you mean shop.tasks:app?",
    "none:app": "none:app is not an App but a str; and it has no App at all",
    "none": "none has no App; make one there: app = holdfast.App()",
    "two": "two has several apps; name one of them: two:one, two:two",
    "bare:app": "bare:app has no tasks; put @app.task over a function",
    "shop/tasks.py:app": "is a file; name the module as `import` does: shop.tasks:app",
    "shop.tasks:": "names no app; write it as module:app",
    "broken:app": "importing broken fails: TypeError",
    "missing:app": "importing missing fails: ModuleNotFoundError: No module named 'no_such_library'",
    "script:app": "importing script ends the program (exit status 5)",
}


@pytest.mark.parametrize("target", ["shop.task:app", "two", "bare:app", "broken:app", "script:app"])
@pytest.mark.slow
def test_an_app_that_is_not_there_is_one_line_that_says_what_to_do(
    worker: Worker, target: str
) -> None:
    done = worker(target)
    assert done.returncode == 64
    assert done.stdout == b""
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("error: ")
    assert WRONG[target] in last


LOAD = """
import sys
from holdfast.errors import InvalidArgument
from holdfast.worker.loading import load
for target in sys.argv[1:]:
    try:
        print(load(target))
    except InvalidArgument as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_whatever_is_wrong_with_a_name_is_told() -> None:
    wrong = {target: says for target, says in WRONG.items() if target != "bare:app"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *wrong], capture_output=True, timeout=60, check=True
    )
    for line, says in zip(done.stdout.decode().splitlines(), wrong.values(), strict=True):
        assert says in line


@pytest.mark.slow
def test_the_apps_own_mistake_is_shown_where_it_is(worker: Worker) -> None:
    said = worker("broken:app").stderr.decode()
    assert "app = holdfast.App(quueue='x')" in said
    assert "importlib" not in said
    assert "loading.py" not in said


@pytest.mark.slow
def test_a_wrong_app_has_no_traceback(worker: Worker) -> None:
    assert len(worker("shop.tasks:ap").stderr.decode().splitlines()) == 1


@pytest.mark.slow
def test_what_can_never_work_is_tried_once(worker: Worker, project: Path) -> None:
    (project / "counted.py").write_text("open('tries', 'a').write('x')")
    assert worker("counted:app").returncode == 64
    assert (project / "tries").read_text() == "x"


@pytest.mark.parametrize("target", ["shop.tasks:app", "shop.tasks"])
def test_an_app_is_found_by_its_name_or_as_the_only_one(project: Path, target: str) -> None:
    sys.modules.pop("shop", None)
    try:
        app = load(target)
        assert sorted(app.tasks) == ["fails", "fails_once", "greet"]
        assert locate(app) == "shop.tasks:app"
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]
        sys.path.remove(str(project))


def test_an_app_in_no_module_is_nowhere() -> None:
    assert locate(holdfast.App()) == ""


# ---- which options ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--queues", ""], "name at least one queue"),
        (["--queues", "a:0"], "the weight of 'a' must be from 1 to 1000"),
        (["--queues", "a,a"], "each queue can be named once"),
        (["--concurrency", "0"], "--concurrency"),
        (["--deadline", "soon"], "--deadline: 'soon' is not a duration"),
        (["--lease", "x"], "--lease: 'x' is not a duration"),
        (["--memory-limit", "much"], "--memory-limit: 'much' is not a size; write 512M or 2G"),
        (["--memory-limit", "1M"], "--memory-limit: 1M is less than Python itself takes"),
        (["--log-level", "loud"], "--log-level: 'loud' is none of debug, info, warning, error"),
        (["--metrics-port", "70000"], "--metrics-port"),
    ],
)
def test_a_wrong_option_is_found_before_anything_starts(
    run: Run, words: list[str], says: str
) -> None:
    done = run("worker", "shop.tasks:app", *words)
    assert done.status == 64
    assert says in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1024", 1024), ("512M", 512 << 20), ("2g", 2 << 30), ("1.5 GiB", 3 << 29), ("64KB", 65536)],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert size(text, "size") == expected


def test_a_size_needs_a_unit_that_there_is() -> None:
    with pytest.raises(InvalidArgument):
        size("5 apples", "size")


def test_help_has_examples(run: Run) -> None:
    said = run("worker", "--help").out
    assert "holdfast worker shop.tasks:app --queues emails:3,default" in said
    assert "--reload" in said


def test_worker_is_listed_under_tasks(run: Run) -> None:
    assert "Tasks" in run("--help").out


# ---- what it shows ------------------------------------------------------------------------


def _fill(queue: holdfast.Queue) -> None:
    bodies = [{"task": "greet", "args": {"name": f"n{i}"}} for i in range(3)]
    bodies += [{"task": name, "args": {}} for name in ("fails_once", "fails", "unheard_of")]
    queue.send_many(bodies)


@pytest.mark.slow
def test_people_see_what_is_served_and_what_was_done(
    worker: Worker, queue: holdfast.Queue, server: str
) -> None:
    _fill(queue)
    done = worker("shop.tasks:app", "--once", "--processes", "2", "-c", "4")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    ours = [line for line in lines if not line.startswith("hello")]  # handlers print when they like
    assert ours[0] == f"shop.tasks:app on {server}"
    shown = "\n".join(lines)
    assert f"queues  {queue.name}" in shown
    tasks = ", ".join(f"{name} ({queue.name})" for name in ("fails", "fails_once", "greet"))
    assert f"tasks   {tasks}" in shown
    assert "4 at a time, in each of 2 processes; Ctrl-C stops" in shown
    assert "hello n2" in lines, "what handlers print"
    rows = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert rows["task"] == ["done", "failed", "retried", "dead", "other"]
    assert rows["greet"] == ["3", "0", "0", "0", "0"]
    assert rows["fails_once"] == ["1", "1", "1", "0", "0"]
    assert rows["fails"] == ["0", "1", "0", "1", "0"]
    assert "unknown task 'unheard_of'" in done.stderr.decode()
    assert "4 tasks done in" in done.stderr.decode()


@pytest.mark.slow
def test_scripts_get_one_object_per_event_and_nothing_else_on_stdout(
    worker: Worker, queue: holdfast.Queue, server: str
) -> None:
    _fill(queue)
    done = worker("shop.tasks", "--once", "--json", "--name", "w", "--queues", f"{queue.name}:3")
    assert done.returncode == 0
    events: list[dict[str, Any]] = [msgspec.json.decode(x) for x in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "leaving", "ended", "stopped"]
    started, leaving, ended, stopped = events
    assert started["server"] == server
    assert started["queues"] == [[queue.name, 3]]
    assert started["tasks"] == dict.fromkeys(("fails", "fails_once", "greet"), queue.name)
    assert (started["name"], started["concurrency"]) == ("w", 16)
    assert leaving["why"] == "idle"
    assert (ended["pid"], ended["status"], ended["expected"]) == (started["pid"], 0, True)
    assert stopped["tasks"]["greet"]["done"] == 3
    assert b"hello n2" in done.stderr
    for line in done.stderr.splitlines():
        if not line.startswith(b"hello"):
            msgspec.json.decode(line)


@pytest.mark.slow
def test_a_queue_that_no_task_goes_to_is_pointed_out(worker: Worker, queue: holdfast.Queue) -> None:
    done = worker("shop.tasks", "--once", "--idle", "10ms", "--queues", "typo")
    assert "no task of this app goes to the queue 'typo'" in done.stderr.decode()


@pytest.mark.slow
def test_a_url_on_the_command_line_wins_over_the_apps_own(
    worker: Worker, queue: holdfast.Queue, project: Path, server: str
) -> None:
    file = project / "shop/tasks.py"
    nowhere = f"unix://{project}/nobody.sock"
    file.write_text(
        file.read_text().replace("holdfast.App(", f"holdfast.App('{nowhere}', retry_for=0, ")
    )
    _fill(queue)
    assert worker("shop.tasks", "--once", "--url", server).returncode == 0
    done = worker("shop.tasks", "--once")  # HOLDFAST_URL is for apps that do not say
    assert done.returncode == 75
    assert "nobody.sock" in done.stderr.decode()


@pytest.mark.slow
def test_the_embedded_server_is_used_where_nothing_else_is_said(
    worker: Worker, project: Path, tmp_path: Path
) -> None:
    done = worker("shop.tasks", "--once", "--idle", "10ms", HOLDFAST_URL="")
    assert done.returncode == 0
    assert done.stdout.decode().startswith("shop.tasks on embedded, unix://")
