"""Every test gets a data folder of its own, and none may leave a process of it behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from holdfast import embedded
from tests.embedded.people import wait_until_gone


@pytest.fixture(scope="session")
def homes() -> Iterator[list[Path]]:
    """The data folders of all tests; checked once at the end, since ending takes a moment each.

    No `down` before the check: what should end by itself must do so.
    """
    known: list[Path] = []
    yield known
    try:
        for home in known:
            wait_until_gone(home)
    finally:
        for home in known:
            embedded.down(home)
    for log in (home / "valkey.log" for home in known):
        assert not log.exists() or "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def short(homes: list[Path]) -> Iterator[Path]:
    """A temporary folder whose path is short enough for a socket, as tmp_path may not be."""
    folder = Path(mkdtemp(prefix="hf-"))
    yield folder
    for home in homes:
        if home.is_relative_to(folder):
            wait_until_gone(home)
    rmtree(folder)


@pytest.fixture
def home(tmp_path: Path, homes: list[Path]) -> Path:
    """A data folder that does not exist yet."""
    homes.append(tmp_path / ".holdfast")
    return homes[-1]
