"""Earlier releases beside today's: their clients on today's library, and today's client on what they stored.

Each release is taken from this repository's own history. A shallow clone does not have it; then the tests
say so. Clients of 0.1.0 are left out: settings came in another form before 0.2.0, and those fail at their
first call to any later library.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast
from tests.servers import standalone_server

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("earlier_client.py")
# The revision of its Lua tells the commits of a release from those that prepared the next one.
RELEASES = {"0.1.0": 1, "0.2.0": 2, "0.3.0": 3, "0.4.0": 4}

pytestmark = pytest.mark.slow


def git(*words: str, given: str = "") -> bytes:
    done = subprocess.run(
        ["git", *words], cwd=ROOT, input=given.encode(), capture_output=True, check=True
    )
    return done.stdout


@cache
def commits() -> dict[tuple[str, int], str]:
    """The last commit of each version and revision."""
    try:
        every = git("rev-list", "HEAD").decode().split()
    except (OSError, subprocess.CalledProcessError):
        return {}
    files = ("pyproject.toml", "src/holdfast/engine/library.py")
    asked = "".join(f"{commit}:{file}\n" for commit in every for file in files)
    said = io.BytesIO(git("cat-file", "--batch", given=asked))
    texts = []
    for _ in range(len(every) * 2):
        head = said.readline().split()
        texts.append(said.read(int(head[2]) + 1).decode() if head[-1].isdigit() else "")
    found: dict[tuple[str, int], str] = {}
    for commit, project, library in zip(every, texts[::2], texts[1::2], strict=True):
        version = re.search(r'^version = "(.*)"', project, re.MULTILINE)
        revision = re.search(r"^REVISION = (\d+)", library, re.MULTILINE)
        if version and revision:
            found.setdefault((version[1], int(revision[1])), commit)
    return found


class Release:
    """The sources of one, and how to run the program with them."""

    def __init__(self, version: str, folder: Path) -> None:
        self.version = version
        self._folder = folder

    def run(self, url: str, name: str, what: str) -> str:
        """What the program prints."""
        done = subprocess.run(
            [sys.executable, PROGRAM, url, name, what],
            env=os.environ | {"PYTHONPATH": str(self._folder / "src")},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def release(request: pytest.FixtureRequest) -> Release:
    version: str = request.param
    commit = commits().get((version, RELEASES[version]))
    if commit is None:
        pytest.skip(f"release {version} is not in the history of this clone (a shallow one?)")
    folder = Path(request.config.cache.mkdir("releases")) / commit
    if not folder.exists():
        part = folder.with_name(f"{commit}.{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "src"))) as archive:
            archive.extractall(part, filter="data")
        try:
            part.rename(folder)
        except OSError:
            assert folder.exists()  # another process was faster
    return Release(version, folder)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with standalone_server(tmp_path) as server:
        yield server.url


@pytest.fixture
def name() -> str:
    return f"q-{secrets.token_hex(4)}"


@pytest.mark.parametrize("release", list(RELEASES)[1:], indirect=True)
def test_a_client_of_an_earlier_release_works_on_todays_library(
    release: Release, url: str, name: str
) -> None:
    with holdfast.connect(url, check="off") as hf:
        hf.queue("today").send(b"loads the library")
        release.run(url, name, "use")
        # It has left the library alone.
        assert hf.queue("today").stats().ready == 1
        with holdfast.connect(url, check="off") as other:
            assert other.queue("today").receive() is not None


@pytest.mark.parametrize("release", list(RELEASES), indirect=True)
def test_what_an_earlier_release_has_stored_is_read_and_settled(
    release: Release, url: str, name: str
) -> None:
    told = json.loads(release.run(url, name, "leave"))
    with holdfast.connect(url, check="off") as hf:
        q = hf.queue(name)
        stats = q.stats()
        assert (stats.ready, stats.delayed, stats.leased, stats.dead) == (5, 1, 2, 1)
        assert (q.settings().lease, q.settings().max_receives) == (3600, 3)
        assert [m.body for m in q.inspect("leased")] == [b"leased 1", b"leased 2"]
        assert q.ack(told["leased"][0])
        assert q.release(told["leased"][1])
        assert q.ensure("unique", b"again").duplicate
        assert q.get(told["delayed"]) is not None
        assert q.remove(told["delayed"])
        [dead] = q.inspect("dead")
        assert (dead.death and dead.death.reason, dead.attributes) == ("bad", {"a": "b"})
        assert len(q.redrive()) == 1
        bodies = []
        while (d := q.receive()) is not None:
            bodies.append(bytes(d.body))
            d.ack()
        assert bodies[0] == b"high"
        assert [b for b in bodies if b[:1] == b"g"] == [b"g0", b"g1", b"g2"]
        assert sorted(bodies) == sorted(
            [b"leased 2", b"unique", b"g0", b"g1", b"g2", b"high", b"dead"]
        )
        assert q.stats().total == 0
        if release.version >= "0.2.0":
            published = [b"published 0", b"published 1", b"published 2"]
            topic = hf.topic(name)
            for seat in (topic.subscription("c", peer="p"), topic.subscription("s")):
                got = seat.observe(10)
                assert [bytes(d.body) for d in got] == published
                assert len(seat.ack_many(got)) == 3
            first = hf.topic(f"{name}-held").subscribe("first")
            assert [bytes(d.body) for d in first.observe(10)] == [b"held"]
        if release.version >= "0.3.0":
            reserved = hf.queue(f"{name}-r")
            assert reserved.stats().reserved == 2
            assert reserved.reserve("reader", 1, [2]) == [2]
            assert reserved.commit("reader", 1) == 2
            assert reserved.stats().ready == 1
