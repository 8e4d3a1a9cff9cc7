"""The code on the pages of docs/ runs as it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests import servers

DOCS = Path(__file__).parents[2] / "docs"
NODE_MODULES = Path(sys.prefix) / "foreign/node_modules"

needs_redis_cli = pytest.mark.skipif(
    shutil.which("redis-cli") is None, reason="no redis-cli: apt install redis-tools"
)
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_MODULES / "redis").is_dir(),
    reason="no node with the redis package: python tools/foreign.py .venv",
)


def block(page: str, language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    return str(found)


def run(command: list[str], **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST")} | more
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.on_a_port(tmp_path_factory.mktemp("server")) as url:
        with holdfast.connect(url, check="off") as hf:
            hf.queue("loads the library").stats()
        yield url


@pytest.mark.slow
def test_the_page_on_topics(tmp_path: Path) -> None:
    program = block("topics.md", "python")
    out = run([sys.executable, "-W", "error", "-c", program], HOLDFAST_HOME=str(tmp_path))
    assert "b'published before anybody came'" in out
    assert """[b'{"sku":"A-7","eur":3}']""" in out
    assert "audit broadcast [('', True)]" in out


def test_the_filter_on_the_page_on_topics_is_one() -> None:
    wanted = holdfast.Filter.from_json(block("topics.md", "json"))
    assert wanted.matches({"kind": "order", "shop": "lyon", "test": "1"})
    assert not wanted.matches({"kind": "order", "shop": "nice", "test": "1"})


@needs_redis_cli
def test_the_functions_from_a_shell(url: str) -> None:
    script = block("other-languages.md", "sh")
    out = run(["bash", "-euo", "pipefail", "-c", script], HOLDFAST_URL=url)
    ids = re.findall(r"^\d+-\d+$", out, re.MULTILINE)
    [receipt] = re.findall(r"^\d+-\d+@\d+$", out, re.MULTILINE)
    assert len(ids) == 3
    assert receipt.startswith(ids[0])
    lines = out.splitlines()
    assert lines[lines.index("acked") + 1] == "1"


@needs_node
@pytest.mark.slow
def test_the_functions_from_node(url: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    program = tmp_path / "page.mjs"
    program.write_text(block("other-languages.md", "js").replace('"orders"', '"from node"'))
    assert run(["node", str(program)], HOLDFAST_URL=url) == 'got {"order":7}\n'
