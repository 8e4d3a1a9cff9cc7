"""holdfast stats, once and live."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest
import redis

import holdfast
from tests.cli.conftest import Run, Start
from tests.servers import standalone, wait_until


@pytest.mark.slow
def test_stats_shows_a_table_of_all_queues(run: Run, queue: holdfast.Queue) -> None:
    queue.send_many(["a", "b", "c"])
    queue.receive()
    [row] = [line for line in run("stats").lines if queue.name in line]
    assert row.split()[1:5] == ["2", "0", "1", "0"]


def test_stats_of_named_queues_shows_only_those(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    result = run("stats", queue.name, "--json")
    found = result.object
    assert found["oldest_age"] >= 0
    expected = {"queue": queue.name, "ready": 1, "sent": 1, "acked": 0, "total": 1, "paused": False}
    assert {name: found[name] for name in expected} == expected


def test_stats_marks_a_paused_queue(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    queue.pause()
    assert f"{queue.name} (paused)" in run("stats", queue.name).out
    assert run("stats", queue.name, "--json").object["paused"] is True


def test_stats_of_an_unknown_queue_guesses_what_was_meant(run: Run, queue: holdfast.Queue) -> None:
    queue.send("a")
    result = run("stats", queue.name + "x")
    assert result.status == 3
    assert (
        result.err
        == f"error: there is no queue {queue.name + 'x'!r}; did you mean {queue.name!r}?\n"
    )
    assert run("stats", "§").err == (
        "error: there is no queue '§'; `holdfast queues` lists those there are\n"
    )


def test_stats_of_an_empty_server_says_how_to_begin(run: Run, tmp_path: Path) -> None:
    with standalone(tmp_path) as url:
        assert run("stats", "--url", url).err == (
            "no queues yet; `holdfast send QUEUE BODY` makes one\n"
        )
        assert run("stats", "x", "--url", url).err == (
            "error: there is no queue 'x'; there are no queues yet; `holdfast send` makes one\n"
        )


@pytest.mark.slow
def test_watching_on_a_terminal_shows_rates_and_ends_quietly_with_ctrl_c(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send("a")
    parent, child = pty.openpty()
    process = start(
        "stats", queue.name, "--watch", "--every", "0.1", stdout=child,
        env={**os.environ, "COLUMNS": "200", "TERM": "xterm"},
    )  # fmt: skip
    os.close(child)
    seen = b""
    while b"sent/s" not in seen or b"Ctrl-C ends it" not in seen:
        seen += os.read(parent, 65_536)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            if not os.read(parent, 65_536):
                break
        except OSError:
            break
    os.close(parent)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")


@pytest.mark.slow
def test_watching_in_json_prints_rates_by_the_servers_clock(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send("a")
    process = start("stats", queue.name, "--watch", "--every", "50ms", "--json")
    assert process.stdout is not None
    assert msgspec.json.decode(process.stdout.readline())["rates"] == {
        "sent": 0.0,
        "received": 0.0,
        "acked": 0.0,
    }
    queue.send_many(["x"] * 50)
    rates: list[float] = []

    def speed() -> bool:
        assert process.stdout is not None
        rates.append(msgspec.json.decode(process.stdout.readline())["rates"]["sent"])
        return rates[-1] > 0

    wait_until(speed, timeout=30, what="a rate")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")


@pytest.mark.slow
def test_watching_into_a_pipe_prints_lines_and_ends_when_the_reader_goes(
    start: Start, queue: holdfast.Queue
) -> None:
    queue.send("a")
    process = start("stats", queue.name, "--watch", "--every", "0.05", stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline().decode()
    assert line == (
        f"{queue.name}  ready 1  delayed 0  leased 0  reserved 0  dead 0  sent 0/s  received 0/s  acked 0/s\n"
    )
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.parametrize("every", ["0", "0.01"])
def test_watching_too_often_is_refused(run: Run, every: str) -> None:
    result = run("stats", "--watch", "--every", every)
    assert result.status == 64
    assert result.err == "error: --every: look at most 20 times a second (0.05)\n"


@pytest.mark.parametrize(
    "words", [("stats", "--json"), ("top", "--once", "--json"), ("reservations", "list", "--json")]
)
def test_one_key_that_is_no_queue_does_not_hide_the_others(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with standalone(tmp_path) as url, holdfast.connect(url) as client:
        client.queue("good").send(b"x")
        client.queue("good").reserve("reader", 1, [1])
        with redis.Redis.from_url(url) as raw:
            for names, key in (("queues", "hf1:{bad}"), ("topics", "hf1:{bad#t}")):
                raw.set(key, "not ours")
                raw.sadd(f"hf1:{names}", "bad")
        result = run(*words, "--url", url)
    assert result.status == 0
    assert b'"good"' in result.raw
    assert "'bad'" in result.err or b"'bad'" in result.raw
