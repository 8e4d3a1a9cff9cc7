from __future__ import annotations

import os
import signal
from pathlib import Path

from holdfast import embedded
from holdfast.embedded import server
from tests.embedded.people import is_dead, script
from tests.servers import standalone_server, wait_until


def test_a_server_dies_with_a_parent_that_was_killed(short: Path) -> None:
    source = """
import sys
from pathlib import Path
from holdfast.embedded import binary, server
tmp = Path(sys.argv[1])
settings = {**server.options(tmp, "fast"), "port": 0, "unixsocket": tmp / "socket"}
print(server.spawn(binary(), settings, tmp / "log").pid, flush=True)
sys.stdin.read()
"""
    with script(source, short) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: server.ping(short / "socket") == "ready", 5, "the server ready")
        parent.kill()
    wait_until(lambda: is_dead(child), 5, "the server dead")


def test_stopping_kills_a_server_that_does_not_react(short: Path) -> None:
    socket = short / "socket"
    settings = {**server.options(short, "fast"), "port": 0, "unixsocket": socket}
    process = server.spawn(embedded.binary(), settings, short / "log")
    wait_until(lambda: server.ping(socket) == "ready", 5, "the server ready")
    os.kill(process.pid, signal.SIGSTOP)
    server.stop(process, grace_seconds=0.1)
    assert process.returncode == -signal.SIGKILL


def test_nobody_there_is_silence(tmp_path: Path) -> None:
    assert server.ping(tmp_path / "nobody.sock") == "silent"
    assert server.ping(("127.0.0.1", 1)) == "silent"


def test_a_server_that_hangs_is_silence(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as running:
        os.kill(running.pid, signal.SIGSTOP)
        assert server.ping(running.address, 0.1) == "silent"
        os.kill(running.pid, signal.SIGCONT)
        assert server.ping(running.address, 5) == "ready"
