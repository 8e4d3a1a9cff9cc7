"""`connect(replicas=n)`: what is confirmed, what is not, and what is handed out all the same."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import holdfast
from holdfast.client._sync import node
from tests.servers import Replicated, Server, primary_with_replica, wait_until


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    with primary_with_replica(tmp_path_factory.mktemp("replicas")) as found:
        yield found


@contextmanager
def paused(server: Server) -> Iterator[None]:
    """It is there, and does nothing."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.slow
def test_who_stops_waiting_for_a_message_does_not_stop_waiting_for_replicas(
    both: Replicated, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The time to wait ends in the moment the message comes: CLIENT UNBLOCK must not meet the WAIT."""
    with (
        holdfast.connect(both.primary.url, replicas=1, check="off") as hf,
        holdfast.connect(both.primary.url, check="off") as other,
    ):
        q = hf.queue("late")
        q.configure(lease=60)
        resumed = threading.Timer(0.2, os.kill, (both.replica.pid, signal.SIGCONT))

        def comes_late(*_: Any) -> None:
            os.kill(both.replica.pid, signal.SIGSTOP)
            other.queue("late").send(b"x")
            wait_until(lambda: other.queue("late").stats().leased == 1, what="it is taken")
            resumed.start()
            raise TimeoutError

        monkeypatch.setattr(node, "read_within", comes_late)
        d = q.receive(wait=5)
        resumed.join()
        assert d is not None
        assert not caplog.records
        d.ack()
