"""The benchmark against other task queues runs, counts right, and says what it could not measure.

How fast anything is, is no concern here. Peers are not installed for it: what runs is our own side, and
sides made up for the test.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import redis
from rich.console import Console

from benchmarks.peers import install, laps, measuring, sides
from benchmarks.peers.crash import holds_the_task
from benchmarks.peers.programs.tally import STAMP, STUCK
from benchmarks.peers.sides import OURS, PROGRAMS, REQUIREMENTS, SIDES, Side
from benchmarks.peers.stage import NotMeasured, stage
from benchmarks.run import Run, progress_on
from benchmarks.servers import Server, running
from tests.servers import wait_until
from tests.undisturbed import TooSlow, undisturbed

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# ---- the whole of it, in small, with our own side ------------------------------------------------


@pytest.mark.torture
@pytest.mark.slow
def test_a_quick_run_of_our_own_side_measures_everything_it_says(tmp_path: Path) -> None:
    finished = run("--quick", "--only", OURS, "--out", str(tmp_path))
    assert finished.returncode == 0, finished.stderr
    document = msgspec.json.decode((tmp_path / "peers.json").read_bytes())
    measured = document["measurements"]["peers"]
    assert list(measured["sides"]) == [OURS]
    assert measured["missing"] == {}
    ours = measured["sides"][OURS]
    [lap] = ours["laps"]
    assert all(lap[name] > 0 for name in ("single", "bulk", "drain", "server_us", "commands"))
    assert lap["tasks"] >= laps.QUICK.least
    assert lap["again"] == 0
    assert 0 < lap["p50_ms"] <= lap["p99_ms"]
    assert ours["bytes_per_task"] > 0
    assert ours["crash"]["fate"] == "kept"
    text = (tmp_path / "peers.md").read_text()
    assert f"| {OURS} |" in text
    assert str(ROOT) not in text
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_wrong_usage_ends_with_status_two() -> None:
    finished = run("--only", "nobody")
    assert finished.returncode == 2
    assert "invalid choice" in finished.stderr


# ---- sides that were made up -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("fast", tcp=True) as made:
        yield made


def made_up(worker: str) -> Side:
    """A side whose worker is this piece of Python."""
    return Side("made_up", ("python", "-c", worker), "nothing")


@pytest.fixture
def as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up sides run with the Python of this test."""
    here = property(lambda self: Path(sys.executable).parent)
    monkeypatch.setattr(Side, "folder_of_programs", here)


TWICE_EACH = made_up("""
import tally
for n in range(10):
    tally.done(n)
    tally.done(n)
tally.done(tally.stamp())
tally.done(tally.stamp() - 7_000)
""")
IN_NODE = Side(
    "made_up",
    (
        *("node", "--input-type=module", "-e"),
        """
        const tally = await import(process.cwd() + "/tally.mjs");
        for (let n = 0; n < 10; n++) [tally.done(n), tally.done(n)];
        tally.done(tally.stamp());
        tally.done(tally.stamp() - 7000);
        """,
    ),
    "nothing",
    node=True,
)
no_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node (make foreign)")


@pytest.mark.usefixtures("as_ours")
@pytest.mark.parametrize("side", [TWICE_EACH, pytest.param(IN_NODE, marks=no_node)])
def test_a_number_counts_once_and_the_clock_starts_when_the_harness_says_so(
    server: Server, side: Side
) -> None:
    with stage(side, server) as on:
        on.start(PEERS_WARM=4, PEERS_TOTAL=10, PEERS_PACED=2)
        assert on.hear("first", 20) == {"moment": "first"}
        with pytest.raises(NotMeasured, match="nothing of 'last'"):
            on.hear("last", 0.2)
        on.go_on()
        last = on.hear("last", 20)
        assert last["again"] == 9
        assert 0 < last["ns"] < 20e9
        at_once, late = on.hear("paced", 20)["us"]
        assert 0 <= at_once < 1_000_000
        assert 7_000 <= late < 1_000_000


@pytest.mark.usefixtures("as_ours")
def test_a_worker_that_ends_is_said_to_with_its_last_words(server: Server) -> None:
    with stage(made_up("raise SystemExit('I cannot work like this')"), server) as on:
        on.start()
        with pytest.raises(NotMeasured, match="its worker ended: I cannot work like this"):
            on.hear("first", 20)


def ended(process: psutil.Process) -> bool:
    """A zombie too: whoever adopted it may not bury it."""
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.usefixtures("as_ours")
@pytest.mark.slow
def test_children_of_a_worker_are_counted_and_end_with_it(server: Server) -> None:
    busy = (
        "import os, time, tally\n"
        "if os.fork(): time.sleep(60)\n"
        "os.setsid()\n"
        "while time.process_time() < 0.3: pass\n"
        "tally.done(0)\n"
        "time.sleep(60)\n"
    )
    with stage(made_up(busy), server) as on:
        on.start(PEERS_TOTAL=1)
        on.hear("last", 30)
        assert on.usage().worker_us >= 0.25e6
        found = on._processes()
        assert len(found) == 2
        on.kill()
        wait_until(lambda: all(ended(process) for process in found), 10)


ASYNC_APP = """
import contextlib, json, pathlib
sent = []
@contextlib.asynccontextmanager
async def opened():
    sent.append("opened")
    yield
    pathlib.Path("sent.json").write_text(json.dumps([*sent, "closed"]))
async def send(n):
    sent.append(n)
async def send_all(numbers):
    sent.append(list(numbers))
"""


@pytest.mark.parametrize("how", ["async", "plain"])
@pytest.mark.slow
def test_the_sender_sends_what_it_is_asked_for(tmp_path: Path, how: str) -> None:
    text = ASYNC_APP
    if how == "plain":
        text = text.replace("async def", "def").replace("@contextlib.asynccontextmanager\n", "")
        text += "import atexit\nlist(opened())\natexit.register(lambda: list(opened()))\n"
    (tmp_path / "app.py").write_text(text)

    def sent(*arguments: str, told: str = "") -> tuple[list[Any], dict[str, int]]:
        finished = subprocess.run(
            [sys.executable, str(PROGRAMS / "send.py"), "app", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            input=told,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        found = json.loads((tmp_path / "sent.json").read_text())
        return [each for each in found if each not in ("opened", "closed")], json.loads(
            finished.stdout.splitlines()[0]
        )

    assert sent("feed", "3")[0] == [[0, 1, 2]]
    assert sent("stuck")[0] == [STUCK]

    def paced() -> None:
        stamps, _ = sent("paced", "5", "50")
        assert len(stamps) == 5
        assert all(stamp > STAMP for stamp in stamps)
        if stamps[-1] - stamps[0] < 4 * 20_000 - 5_000:
            raise TooSlow("the first was late")

    undisturbed(paced)
    all_of_it, rates = sent("turns", told="20\n")
    singles = [each for each in all_of_it if isinstance(each, int)]
    assert set(rates) == {"single", "bulk"}
    assert singles[:50] == list(range(50))
    assert len(singles) >= 100  # the first fifty are not timed
    assert all_of_it[len(singles) :] == [list(range(1000))] * (len(all_of_it) - len(singles))
    assert len(all_of_it) - len(singles) >= 2


@pytest.mark.usefixtures("as_ours")
@pytest.mark.slow
def test_a_side_that_fails_is_reported_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measuring, "ready", lambda side: True)
    monkeypatch.setattr(measuring, "version", lambda side: "0")
    failing = [replace(made_up("pass"), name=name) for name in ("one", "two")]
    quiet = Console(quiet=True)
    with progress_on(quiet) as progress:
        found = measuring.measure(Run(True, 1, progress, quiet), failing)
    assert found.sides == {}
    assert set(found.missing) == {"one", "two"}
    assert "one_app" in found.missing["one"]


# ---- the crash -------------------------------------------------------------------------------------


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    with server.connect() as connected:
        connected.flushall()
        yield connected


@pytest.mark.parametrize(
    "value",
    [
        b'{"args": [%d]}' % STUCK,
        b"\x80\x04J" + struct.pack("<i", STUCK) + b".",
        b"\xce" + struct.pack(">i", STUCK),
        zlib.compress(b"[%d]" % STUCK),
        json.dumps({"body": base64.b64encode(b"[[%d], {}]" % STUCK).decode()}).encode(),
    ],
    ids=["JSON", "pickle", "MessagePack", "zlib", "base64"],
)
def test_a_task_is_found_in_the_server_in_every_encoding(client: redis.Redis, value: bytes) -> None:
    client.rpush("other", b"nothing", b"0" * 99)
    assert not holds_the_task(client)
    client.hset("jobs", "1", value)
    assert holds_the_task(client)


def test_an_entry_of_a_stream_that_was_acknowledged_is_no_longer_a_task(
    client: redis.Redis,
) -> None:
    entry = client.xadd("stream", {"data": b"%d" % STUCK})
    client.xgroup_create("stream", "group", id="0")
    client.xreadgroup("group", "me", {"stream": ">"})
    assert holds_the_task(client)
    client.xack("stream", "group", entry)
    assert not holds_the_task(client)


# ---- installing ------------------------------------------------------------------------------------


def test_every_peer_is_pinned_and_has_its_program() -> None:
    for name, side in SIDES.items():
        suffix = "mjs" if side.node else "py"
        assert (PROGRAMS / f"{name}_app.{suffix}").exists()
        if name != OURS:
            assert re.fullmatch(r"\d+(\.\d+)+", install.version(side))
    for wanted in REQUIREMENTS.iterdir():
        text = wanted.read_text()
        assert "://" not in text
        if wanted.suffix == ".txt":
            assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in text.splitlines())


def test_a_peer_that_cannot_be_installed_says_why_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "HOMES", tmp_path / "homes")
    monkeypatch.setattr(install, "_MAKE_VENV", tmp_path / "no_such_program.py")
    side = SIDES["rq"]
    reason = install.install(side)
    assert reason is not None
    assert reason.startswith("it could not be installed: ")
    assert "no_such_program.py" in reason
    assert not install.ready(side)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "npm" in (install.install(SIDES["bullmq"]) or "")


@pytest.mark.slow
@pytest.mark.torture
def test_a_home_is_made_once_for_one_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "HOMES", tmp_path / "homes")
    monkeypatch.setattr(install, "REQUIREMENTS", tmp_path)
    (tmp_path / "rq.txt").write_text("\n")
    side = SIDES["rq"]
    assert install.install(side) is None
    assert install.ready(side)
    (side.home / "mark").touch()
    assert install.install(side) is None
    assert (side.home / "mark").exists()
    (tmp_path / "rq.txt").write_text("rq==1\n")
    assert not install.ready(side)
