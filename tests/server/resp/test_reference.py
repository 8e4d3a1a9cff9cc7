"""The reference of the commands: complete, and its examples run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import redis

from holdfast.server.resp.table import TABLE
from tests import servers
from tests.server.resp.running import running

PAGE = (Path(__file__).parents[3] / "docs/redis-commands.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(MQ\.[A-Z]+).*\| `(MQ\.[^`]*)` \|$", PAGE, re.MULTILINE)


def test_every_command_of_the_queues_has_a_row_and_no_other_has() -> None:
    assert {name for name, _ in ROWS} == {n.decode() for n in TABLE if n.startswith(b"MQ.")}


def test_every_other_command_is_named() -> None:
    besides = PAGE.partition("## Besides")[2]
    for name in TABLE:
        assert name.startswith(b"MQ.") or re.search(rf"\b{name.decode()}\b", besides), name


def test_the_examples_run_from_top_to_bottom(tmp_path: Path) -> None:
    with (
        servers.standalone(tmp_path) as url,
        running(url) as door,
        redis.Redis(port=door.port) as r,
    ):
        ask: Callable[..., object] = r.execute_command
        for name, example in ROWS:
            assert example.startswith(name)
            ask(*shlex.split(example))
