"""holdfast up, down, and the embedded server behind every command without a URL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import embedded
from tests.cli.conftest import Run

pytestmark = pytest.mark.usefixtures("embedded_home")


@pytest.fixture
def embedded_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No URL: the embedded server, in a folder that is stopped and left at the end."""
    monkeypatch.delenv("HOLDFAST_URL")
    yield tmp_path / "home"
    embedded.down(tmp_path / "home")


def test_without_a_url_messages_are_in_the_embedded_server(run: Run, embedded_home: Path) -> None:
    assert run("send", "q", "kept").status == 0
    assert embedded_home.exists()
    assert run("receive", "q", "--ack").out == "kept\n"
    result = run("doctor")
    assert result.status == 0
    assert result.lines[0].endswith(f"embedded server in {embedded_home}")


def test_up_and_down_say_what_happened_and_where(run: Run, embedded_home: Path) -> None:
    first = run("up", "--durability", "fast")
    status = embedded.status(embedded_home)
    assert status.pinned
    assert first.lines == [
        f"the embedded server runs in {embedded_home} (fast, pid {status.pid})",
        f"  for any Redis client:  {status.url}",
    ]
    assert first.err == "it stays until `holdfast down`\n"
    assert run("up").lines[0].startswith("the embedded server runs already in ")
    found = run("up", "--json").object
    assert found == {
        "running": True,
        "started": False,
        "home": str(embedded_home),
        "url": status.url,
        "pid": status.pid,
        "durability": "fast",
    }
    wrong = run("up", "--durability", "durable")
    assert wrong.status == 64
    assert "runs with durability 'fast', not 'durable'" in wrong.err
    assert run("down").lines == [
        f"the embedded server in {embedded_home} is stopped; its messages are on disk"
    ]
    assert run("down").lines == [f"no embedded server was running in {embedded_home}"]
    assert run("down", "--json").object == {"stopped": False, "home": str(embedded_home)}


def test_up_mentions_that_a_url_is_set(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "redis://127.0.0.1:1")
    assert run("down").err == (
        "HOLDFAST_URL is set: the other commands use that server, not the embedded one\n"
    )


def test_up_with_an_unknown_durability_names_those_there_are(run: Run) -> None:
    result = run("up", "--durability", "eternal")
    assert result.status == 64
    assert result.err == (
        "error: durability is 'durable' or 'fast', not 'eternal'; leave it out for 'durable'\n"
    )
