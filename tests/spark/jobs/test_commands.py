"""The commands of all jobs, one after the other, as somebody would use them on one set of messages."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.cli.main import main
from holdfast.errors import QueueFull


def run(*words: str) -> tuple[int, str, str]:
    """In this process, and so in the session of the tests."""
    raw, err = io.BytesIO(), io.StringIO()
    with redirect_stdout(io.TextIOWrapper(raw, "utf-8", write_through=True)), redirect_stderr(err):
        status = main(["spark", *words])
        sys.stdout.flush()
        said = raw.getvalue().decode()
    return status, said, err.getvalue()


def last(*words: str) -> Any:
    status, out, err = run(*words, "--json")
    assert status == 0, err
    return msgspec.json.decode(out.splitlines()[-1])


def test_messages_go_through_all_jobs(
    spark: SparkSession, hf: holdfast.Client, server_url: str, tmp_path: Path
) -> None:
    queue, again = hf.queue("commands-orders"), hf.queue("commands-again")
    queue.configure(journal=True, max_receives=1)
    url, lake, journal = ("--url", server_url), str(tmp_path / "lake"), str(tmp_path / "journal")
    queue.send_many([b'{"n": %d}' % n for n in range(10)])
    for delivery in queue.receive_many(4):
        delivery.nack(error="no tea left")
    assert queue.stats().dead == 4

    dry = last("redrive", queue.name, "--where", "text LIKE '%3%'", "--dry-run", *url)
    assert (dry["dead"], dry["picked"], dry["moved"]) == (4, 1, 0)
    status, out, _ = run("redrive", queue.name, "--by", "error", *url)
    assert status == 0
    assert "no tea left" in out
    assert "moved 4 back" in out

    first = last("archive", queue.name, "--to", lake, "--once", *url)
    assert (first["rows"], first["open"]) == (10, 0)
    queue.send(b'{"n": 10}')
    status, out, err = run("archive", queue.name, "--to", lake, "--once", *url)
    assert status == 0
    assert "archived 1 row to" in out
    assert "batch 1  1 row" in err

    status, out, err = run("compact", lake)
    assert (status, out) == (0, "")
    assert "before today" in err
    status, out, _ = run("compact", lake, "--all")
    assert status == 0
    assert "2 files → 1" in out
    assert spark.read.parquet(lake).count() == 11

    words = ("replay", "--from", lake, "--to", again.name, "--where", "text LIKE '%1%'", *url)
    assert last(*words, "--dry-run")["matched"] == 2
    assert last(*words)["sent"] == 2
    assert last(*words)["duplicates"] == 2
    assert sorted(m.body for m in again.inspect("ready")) == [b'{"n": 10}', b'{"n": 1}']

    assert last("archive", "--journal", queue.name, "--to", journal, "--once", *url)["rows"] > 20
    status, out, _ = run("report", "--from", journal, "--to", str(tmp_path / "report"))
    assert status == 0
    assert queue.name in out
    assert list((tmp_path / "report").glob("*.html"))


@pytest.mark.usefixtures("spark")
def test_an_error_deep_in_spark_is_one_line_and_its_own_exit_status(
    hf: holdfast.Client, server_url: str, tmp_path: Path
) -> None:
    queue, full = hf.queue("commands-many"), hf.queue("commands-full")
    queue.send_many([b"x"] * 10)
    full.configure(max_length=1)
    full.send(b"x")
    words = ("bridge", "--from", queue.name, "--to", full.name, "--once")
    status, out, err = run(*words, "--checkpoint", str(tmp_path), "--url", server_url)
    assert status == QueueFull.exit_status
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "holds 1 of at most 1 messages" in line
    assert "at org.apache.spark" not in err
    assert "Traceback" not in err
    assert "10 messages stay reserved" in err
    assert out == ""
