"""Log lines: one event each, machine-readable, and no secrets."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from holdfast.server import logs
from holdfast.server.logs import Format, Level, Seldom, event

log = logging.getLogger("holdfast.test")
SECRET = "hf_" + "s3cretS3cret" * 3


def said(form: Format, name: str = "ready", level: Level = "info", **fields: Any) -> str:
    out = io.StringIO()
    with logs.to_stderr(form, level, out):
        event(log, logging.INFO, name, **fields)
    return out.getvalue()


def test_text_is_key_value_and_quoted_where_needed() -> None:
    line = said("text", "told to stop", signal="SIGTERM", count=3, none=None, odd='a "b"\n=c')
    assert line.endswith(
        'level=info event="told to stop" signal=SIGTERM count=3 odd="a \\"b\\"\\n=c"\n'
    )
    assert line.startswith("time=20")
    assert line.count("\n") == 1


def test_json_is_one_object_on_one_line() -> None:
    line = said("json", queue="a\nb", tls=True)
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {"level": "info", "event": "ready", "queue": "a\nb", "tls": True}
    assert line.count("\n") == 1


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "text",
    [
        f"got {SECRET}",
        f"Bearer {SECRET}",
        "redis://user:passw0rd@host:1/0",
        "unix://:passw0rd@/run/x",
        "authorization: bearer passw0rd",
    ],
)
def test_what_looks_like_a_secret_is_blotted_out(form: Format, text: str) -> None:
    for line in (said(form, text), said(form, error=text), said(form, error=ValueError(text))):
        assert "s3cret" not in line
        assert "passw0rd" not in line
        assert "***" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_trace_is_in_the_same_line_and_blotted_too(form: Format) -> None:
    out = io.StringIO()
    with logs.to_stderr(form, "info", out):
        try:
            raise ValueError(f"no {SECRET}\nlevel=info event=fake")
        except ValueError:
            log.exception("failed")
    assert out.getvalue().count("\n") == 1
    assert "ValueError" in out.getvalue()
    assert "s3cret" not in out.getvalue()


def test_the_level_is_kept_and_libraries_speak_from_warning_on() -> None:
    out = io.StringIO()
    with logs.to_stderr("json", "info", out):
        log.debug("too fine")
        logging.getLogger("grpc").info("too fine")
        logging.getLogger("grpc").warning("heard")
    [line] = out.getvalue().splitlines()
    assert json.loads(line)["from"] == "grpc"


def test_logging_is_as_before_afterwards() -> None:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    said("text")
    assert (logging.getLogger().handlers, logging.getLogger().level) == before


def test_an_event_that_strangers_cause_is_told_seldom_and_counted() -> None:
    out = io.StringIO()
    with logs.to_stderr("json", "info", out):
        often = Seldom(log, logging.WARNING, "turned away", every=3600)
        for _ in range(100):
            often(why="wrong token")
        often._next = 0.0
        often(why="wrong token")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert "unsaid" not in first
    assert second["unsaid"] == 99
