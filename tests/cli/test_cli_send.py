"""holdfast send."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.message import Outgoing
from tests.cli.conftest import Run, Start
from tests.servers import wait_until


def bodies(queue: holdfast.Queue) -> list[bytes]:
    return [m.body for m in queue.inspect("ready", count=10_000)]


def test_send_prints_the_id_of_each_message_it_stored(run: Run, queue: holdfast.Queue) -> None:
    result = run("send", queue.name, "hello", "world")
    assert (result.status, result.err) == (0, "")
    assert result.lines == [m.id for m in queue.inspect("ready")]
    assert bodies(queue) == [b"hello", b"world"]


def test_send_in_json_says_id_and_whether_it_was_a_duplicate(
    run: Run, queue: holdfast.Queue
) -> None:
    first = run("send", queue.name, "a", "--dedup-id", "x", "--json").object
    assert first == {"id": queue.inspect("ready")[0].id, "duplicate": False}
    assert run("send", queue.name, "a", "--dedup-id", "x", "--json").object == {
        "id": first["id"],
        "duplicate": True,
    }


def test_send_says_of_what_a_message_is_a_duplicate(run: Run, queue: holdfast.Queue) -> None:
    id_ = run("send", queue.name, "a", "--dedup-id", "x").lines[0]
    assert run("send", queue.name, "b", "--dedup-id", "x").lines == [f"duplicate of {id_}"]
    assert bodies(queue) == [b"a"]


def test_send_takes_everything_that_can_be_said_of_a_message(
    run: Run, queue: holdfast.Queue
) -> None:
    run("send", queue.name, "a", "--priority", "7", "--group", "g", "--ttl", "1h",
        "--attribute", "country=NL", "-a", "k=a=b")  # fmt: skip
    [message] = queue.inspect("ready")
    assert (message.priority, message.group) == (7, "g")
    assert message.attributes == {"country": "NL", "k": "a=b"}
    assert message.expires_at == message.sent_at + timedelta(hours=1)


def test_send_with_a_delay_or_a_due_time_makes_delayed_messages(
    run: Run, queue: holdfast.Queue
) -> None:
    run("send", queue.name, "a", "--delay", "5m")
    run("send", queue.name, "b", "--due", "2100-01-31T09:00Z")
    first, second = queue.inspect("delayed")
    assert first.due is not None
    assert first.due - first.sent_at == timedelta(minutes=5)
    assert second.due == datetime(2100, 1, 31, 9, tzinfo=UTC)


def test_send_takes_all_of_stdin_as_one_body_byte_for_byte(run: Run, queue: holdfast.Queue) -> None:
    run("send", queue.name, stdin=b"two\nlines\n\xff\x00")
    run("send", queue.name, "-", stdin=b"")
    assert bodies(queue) == [b"two\nlines\n\xff\x00", b""]


def test_send_takes_a_whole_file_as_one_body(
    run: Run, queue: holdfast.Queue, tmp_path: Path
) -> None:
    (tmp_path / "photo").write_bytes(b"\x89PNG")
    run("send", queue.name, "--file", str(tmp_path / "photo"))
    assert bodies(queue) == [b"\x89PNG"]


def test_send_lines_makes_each_of_2500_lines_a_message_in_order(
    run: Run, queue: holdfast.Queue
) -> None:
    text = b"".join(b"line %d\n" % n for n in range(2500))
    result = run("send", queue.name, "--lines", stdin=text)
    assert (result.status, result.lines) == (0, [f"sent 2,500 messages to {queue.name!r}"])
    assert bodies(queue) == [b"line %d" % n for n in range(2500)]


def test_send_lines_keeps_blank_lines_drops_line_ends_and_needs_no_last_one(
    run: Run, queue: holdfast.Queue
) -> None:
    run("send", queue.name, "--lines", stdin=b"a\r\n\nlast")
    assert bodies(queue) == [b"a", b"", b"last"]


def test_send_lines_puts_a_line_together_that_comes_in_pieces(
    run: Run, queue: holdfast.Queue
) -> None:
    long = b"x" * 700_000
    run("send", queue.name, "--lines", stdin=long + b"\nshort\n" + long)
    assert bodies(queue) == [long, b"short", long]


def test_send_lines_gives_each_line_the_options(run: Run, queue: holdfast.Queue) -> None:
    run("send", queue.name, "--lines", "--priority", "4", "-a", "k=v", stdin=b"a\nb\n")
    assert [(m.priority, m.attributes) for m in queue.inspect("ready")] == [(4, {"k": "v"})] * 2


def test_send_lines_in_json_prints_an_object_per_message(run: Run, queue: holdfast.Queue) -> None:
    result = run("send", queue.name, "--lines", "--json", stdin=b"a\nb\n")
    assert [found["id"] for found in result.objects] == [m.id for m in queue.inspect("ready")]


@pytest.mark.slow
def test_send_lines_sends_what_is_there_and_does_not_wait_for_a_full_batch(
    start: Start, queue: holdfast.Queue
) -> None:
    process = start("send", queue.name, "--lines")
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    wait_until(
        lambda: queue.stats().sent == 1, timeout=30, what="the line is sent while stdin is open"
    )
    out, err = process.communicate(b"second\n")
    assert (process.returncode, err) == (0, b"")
    assert out.decode() == f"sent 2 messages to {queue.name!r}\n"


@pytest.mark.slow
def test_ctrl_c_while_sending_lines_says_how_many_went(start: Start, queue: holdfast.Queue) -> None:
    process = start("send", queue.name, "--lines")
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    wait_until(lambda: queue.stats().sent == 1, timeout=30, what="the line is sent")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    # The signal may come before the answer: then it says so.
    assert err.decode() in (
        f"interrupted; sent 1 message to {queue.name!r} before that\n",
        f"interrupted; sent 0 messages to {queue.name!r} before that; "
        "1 more had been sent without an answer yet, and may be there\n",
    )


def test_a_body_may_begin_with_a_dash(run: Run, queue: holdfast.Queue) -> None:
    run("send", queue.name, "--", "-5", "--json")
    assert bodies(queue) == [b"-5", b"--json"]


def test_send_jsonl_takes_bodies_of_any_kind_and_settings_of_each(
    run: Run, queue: holdfast.Queue
) -> None:
    text = b"""{"body": "text", "priority": 9}
{"body": {"a": [1, null]}, "attributes": {"k": "v"}, "group": "g"}

{"body_base64": "/wA="}
{"body": "later", "delay": "5m"}
{"body": "once", "dedup_id": "x"}
{"body": "twice", "dedup_id": "x"}
"""
    result = run("send", queue.name, "--jsonl", stdin=text)
    assert result.lines == [f"sent 5 messages to {queue.name!r} (1 more were duplicates)"]
    found = {m.body: m for m in queue.inspect("ready")}
    assert set(found) == {b"text", b'{"a":[1,null]}', b"\xff\x00", b"once"}
    assert found[b"text"].priority == 9
    grouped = found[b'{"a":[1,null]}']
    assert (grouped.attributes, grouped.group) == ({"k": "v"}, "g")
    assert queue.stats().delayed == 1


def test_send_jsonl_takes_back_what_receive_and_inspect_print(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.send_many([Outgoing(b"\xff", priority=3, attributes={"k": "v"}), "text"])
    printed = run("receive", queue.name, "-n", "2", "--ack", "--json").raw
    assert run("send", queue.name, "--jsonl", stdin=printed).status == 0
    first, second = queue.inspect("ready")
    assert (first.body, first.priority, first.attributes) == (b"\xff", 3, {"k": "v"})
    assert second.body == b"text"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON: Input data was truncated"),
        ("[1]", 'must be an object like {"body": …}, not list'),
        ("{}", 'must have either "body" or "body_base64"'),
        ('{"body": 1, "body_base64": ""}', 'must have either "body" or "body_base64"'),
        (
            '{"body": 1, "prio": 2}',
            "unknown field 'prio'; there are: body, body_base64, delay, due, priority, attributes, "
            "group, dedup_id, ttl",
        ),
        ('{"body": "a", "priority": 10}', "priority must be from 0 to 9, not 10"),
        ('{"body": "a", "delay": -1}', "delay must be from 0 to 70368744177 seconds, not -1"),
        ('{"body": "a", "delay": true}', "delay must be seconds or a timedelta, not bool True"),
        ('{"body": "a", "attributes": [1]}', "attributes must be an object, not list"),
        (
            '{"body": "a", "attributes": {"k": 1}}',
            "attribute 'k' must be text, not int; put structured data into the body",
        ),
        ('{"body": "a", "due": 5}', "due must be text, not int"),
        ('{"body": "a", "due": "2030-01-01T00:00Z", "delay": 1}', "give delay or due, not both"),
        ('{"body": "a", "group": 5}', "group must be text, not int"),
        ('{"body_base64": "!"}', "body_base64: Only base64 data is allowed"),
    ],
)
def test_send_jsonl_names_the_bad_line_and_says_how_many_went_before(
    run: Run, queue: holdfast.Queue, line: str, complaint: str
) -> None:
    text = '{"body": "good"}\n{"body": "good"}\n' + line + '\n{"body": "never sent"}\n'
    result = run("send", queue.name, "--jsonl", stdin=text.encode())
    assert (result.status, result.out) == (64, "")
    assert result.err == (
        f"error: line 3: {complaint}; sent 2 messages to {queue.name!r} before that\n"
    )
    assert bodies(queue) == [b"good", b"good"]


def test_send_lines_to_a_full_queue_says_how_many_went_before(
    run: Run, queue: holdfast.Queue
) -> None:
    queue.configure(max_length=1500)
    result = run("send", queue.name, "--lines", stdin=b"x\n" * 2500)
    assert result.status == 75
    assert result.err.startswith("error: ")
    assert result.err.endswith(f"; sent 1,000 messages to {queue.name!r} before that\n")
    assert queue.stats().sent == 1000


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], 'nothing to send: stdin was empty; for an empty body give ""'),
        (["--lines", "--jsonl"], "give --lines or --jsonl, not both"),
        (["a", "--lines"], "give bodies, or read them from stdin or --file, not both"),
        (["a", "--file", "x"], "give bodies, or read them from stdin or --file, not both"),
        (["--file", "no/such"], "cannot read 'no/such': No such file or directory"),
        (["a", "--attribute", "x"], "--attribute: 'x' is not name=value"),
        (["a", "--priority", "11"], "priority must be from 0 to 9, not 11"),
        (["a", "--delay", "1", "--due", "2030-01-01"], "give delay or due, not both"),
        (["a", "--ttl", "0"], "ttl must be from 0.001 to 70368744177 seconds, not 0.0"),
        (["a", "--group", ""], "group must have 1 to 200 characters, this one has 0"),
        (
            ["a", "b", "--dedup-id", "x"],
            "--dedup-id is for one message: with several, all but the first would be duplicates; "
            "use --jsonl, where each line can have its own dedup_id",
        ),
        (
            ["a", "--delay", "5x"],
            "--delay: '5x' is not a duration; write seconds (5, 0.5) or 250ms, 30s, 5m, 2h, 1d",
        ),
        (
            ["a", "--due", "soon"],
            "--due: 'soon' is not a point in time; write 2030-01-31T09:00 (local time), "
            "or with a zone: 2030-01-31T09:00Z",
        ),
    ],
)
def test_send_refuses_what_makes_no_sense_before_anything_is_sent(
    run: Run, queue: holdfast.Queue, words: list[str], complaint: str
) -> None:
    result = run("send", queue.name, *words)
    assert (result.status, result.out, result.err) == (64, "", f"error: {complaint}\n")
    assert not queue.stats().now


def test_send_refuses_a_bad_queue_name(run: Run) -> None:
    result = run("send", "", "x")
    assert result.status == 64
    assert result.err == "error: a queue's name must have 1 to 200 characters, this one has 0\n"
