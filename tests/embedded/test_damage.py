"""Append-only files as a power cut leaves them with `fast`: recognised, explained, and mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import redis

import holdfast
from holdfast import HoldfastError, Unavailable, embedded
from holdfast.embedded import aof, damage
from tests.embedded.people import wait_until_gone
from tests.servers import wait_until

Hurt = Callable[[Path], None]


def written(home: Path) -> Path:
    """A folder whose server has written a base and a file of commands; the folder of these."""
    with holdfast.connect(home=home, durability="fast") as hf:
        hf.queue("orders").send_many([b"%d" % i for i in range(50)])
        with redis.Redis.from_url(hf.url) as raw:
            raw.bgrewriteaof()
            wait_until(lambda: not raw.info("persistence")["aof_rewrite_in_progress"], 20)
        hf.queue("orders").send(b"kept")
        hf.queue("bills").send_many([b"x" * 50] * 3)
    wait_until_gone(home)
    return home / "appendonlydir"


def last(folder: Path) -> Path:
    return folder / aof.parts(folder)[-1].name


def another(folder: Path) -> None:
    """A rewrite had begun: what came then went to a file of its own."""
    manifest = folder / aof.MANIFEST
    (folder / "appendonly.aof.9.incr.aof").write_bytes(
        b"*3\r\n$5\r\nRPUSH\r\n$14\r\nhf1:{later}:r0\r\n$1\r\nx\r\n"
    )
    manifest.write_text(manifest.read_text() + "file appendonly.aof.9.incr.aof seq 9 type i\n")


def zeros(folder: Path) -> None:
    data = last(folder).read_bytes()
    last(folder).write_bytes(data[:-60] + bytes(4096))


def cut_in_the_middle(folder: Path) -> None:
    path = last(folder)
    path.write_bytes(path.read_bytes()[:-60])
    another(folder)


def gone_in_the_middle(folder: Path) -> None:
    path = last(folder)
    another(folder)
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("hurt", [zeros, cut_in_the_middle])
def test_what_is_damaged_is_explained_and_mended_and_a_copy_kept(home: Path, hurt: Hurt) -> None:
    folder = written(home)
    hurt(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for _ in range(2):  # also the second time: nothing is loaded that has a hole in it
        with pytest.raises(Unavailable, match=r"`holdfast doctor --repair` cuts it where it is"):
            embedded.join(home)
    done = damage.repair(home)
    assert done.copy is not None
    assert {path.name: path.read_bytes() for path in done.copy.iterdir()} == before
    first, *others = done.cuts
    assert first.lost.size == len(before[first.file]) - first.kept > 0
    assert first.lost.calls == 1
    assert {key.decode() for key in first.lost.keys} >= {"hf1:{bills}"}
    assert [cut.kept for cut in others] == [0] * len(others)
    with holdfast.connect(home=home) as hf:
        assert hf.queue("orders").stats().ready == 51
        assert hf.queue("bills").stats().ready == 0
        assert hf.queue("later").stats().ready == 0
        hf.queue("bills").send(b"again")
        with pytest.raises(Unavailable, match="runs; stop it with `holdfast down` first"):
            damage.repair(home)
    wait_until_gone(home)
    assert damage.repair(home) == (home, None, [])


@pytest.mark.slow
def test_what_stands_behind_a_file_that_is_gone_is_not_used(home: Path) -> None:
    folder = written(home)
    gone_in_the_middle(folder)
    with pytest.raises(Unavailable, match="doctor --repair"):
        embedded.join(home)
    assert len(damage.repair(home).cuts) == 2
    with holdfast.connect(home=home) as hf:
        assert hf.queue("orders").stats().ready == 50
        assert hf.queue("later").stats().ready == 0


@pytest.mark.slow
def test_a_damaged_base_is_not_touched(home: Path) -> None:
    folder = written(home)
    base = folder / next(part.name for part in aof.parts(folder) if part.kind == "b")
    data = base.read_bytes()
    base.write_bytes(data[: len(data) // 2])
    with pytest.raises(HoldfastError, match="put back a copy"):
        damage.repair(home)
    assert len(list(home.glob("appendonlydir*"))) == 1


def test_a_whole_rewrite_that_was_interrupted_is_no_damage(home: Path) -> None:
    folder = home / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "a.1.incr.aof").write_bytes(b"#TS:1\r\n*1\r\n$4\r\nPING\r\n")
    (folder / aof.MANIFEST).write_text("file a.1.incr.aof seq 1 type i\n")
    another(folder)
    assert aof.hole(folder) is None
    assert damage.repair(home).copy is None


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", 0),
        (b"*1\r\n$4\r\nPING\r\n", 14),
        (b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPIN", 14),
        (b"*1\r\n$4\r\nPING\r\n\0\0\0\0", 14),
        (b"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n", 0),
        (b"*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nEXEC\r\n", 43),
        (b"*x\r\n", 0),
        (b"*1\r\n$99999999999999999999\r\nx", 0),
        (b"*-1\r\n", 0),
    ],
)
def test_where_a_file_is_whole(tmp_path: Path, data: bytes, whole: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    seen: list[int] = []
    assert aof.whole(path, seen.append) == whole
    assert sum(seen) == len(data)
