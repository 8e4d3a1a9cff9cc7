from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.embedded.folder import LONGEST_SOCKET_PATH
from holdfast.errors import InvalidArgument
from tests.embedded.people import User, answers, ask, wait_until_gone


@pytest.fixture
def temporary(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our own temporary folder, where sockets of long paths go."""
    monkeypatch.setattr("tempfile.tempdir", str(short))
    return short


@pytest.fixture
def long_home(tmp_path: Path, homes: list[Path]) -> Path:
    homes.append(tmp_path / ("long" * 30))
    return homes[-1]


def test_the_default_is_holdfast_home_or_a_folder_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    assert embedded.home() == tmp_path / ".holdfast"
    monkeypatch.setenv("HOLDFAST_HOME", "")
    assert embedded.home() == tmp_path / ".holdfast"
    monkeypatch.setenv("HOLDFAST_HOME", "elsewhere")
    assert embedded.home() == tmp_path / "elsewhere"


def test_join_uses_the_default_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    with embedded.join() as membership:
        assert membership.home == home
        assert embedded.status().running
        assert embedded.down()


def test_two_roads_to_one_folder_lead_to_one_server(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    with embedded.join(home) as one, embedded.join(tmp_path / "link") as other:
        assert one.url == other.url


@pytest.mark.slow
def test_a_path_too_long_for_a_socket_gets_a_short_one_in_a_private_folder(
    long_home: Path, temporary: Path
) -> None:
    with embedded.join(long_home) as membership:
        assert len(str(membership.socket)) <= LONGEST_SOCKET_PATH
        assert membership.socket.is_relative_to(temporary)
        assert stat.S_IMODE(membership.socket.parent.stat().st_mode) == 0o700
        assert ask(membership.url, "CONFIG GET", "dir") == {"dir": str(long_home)}
        with embedded.join(long_home) as again:
            assert again.url == membership.url
    wait_until_gone(long_home)
    assert not membership.socket.exists()


def test_a_long_path_is_found_by_users_with_another_temporary_folder(
    long_home: Path, temporary: Path
) -> None:
    other = temporary / "o"
    other.mkdir()
    with embedded.join(long_home) as membership, User(long_home, {"TMPDIR": str(other)}) as user:
        assert user.joined() == membership.url
        user.leave()


def test_a_temporary_folder_that_others_can_enter_is_refused(
    long_home: Path, temporary: Path
) -> None:
    with embedded.join(long_home) as membership:
        private = membership.socket.parent
    wait_until_gone(long_home)
    private.chmod(0o755)
    with pytest.raises(InvalidArgument, match="not a private folder"):
        embedded.join(long_home)


def test_a_temporary_folder_that_is_itself_too_long_is_not_used(
    long_home: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = temporary / ("deep" * 25)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with embedded.join(long_home) as membership:
        assert not membership.socket.is_relative_to(deep)
        assert answers(membership.url)


def test_a_folder_that_cannot_be_created_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    below = tmp_path / "file" / "home"
    for call in (embedded.join, embedded.up):
        with pytest.raises(InvalidArgument, match=rf"{below}: Not a directory.*HOLDFAST_HOME"):
            call(below)


def test_a_file_in_place_of_the_folder_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InvalidArgument, match=r"File exists.*HOLDFAST_HOME"):
        embedded.join(tmp_path / "file")


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(home: Path) -> None:
    home.joinpath("users.lock").mkdir(parents=True)  # what even root cannot open for writing
    with pytest.raises(InvalidArgument, match=r"Is a directory \(.*users.lock\)"):
        embedded.join(home)
