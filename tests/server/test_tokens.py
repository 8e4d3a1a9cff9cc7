"""The token file: hashes at rest, rights that are checked, replaced whole."""

from __future__ import annotations

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.server import tokens

GOOD = "0" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_a_new_secret_has_256_random_bits_and_is_new_each_time() -> None:
    found = {tokens.new("t", ["all *:*"])[1] for _ in range(100)}
    assert len(found) == 100
    assert all(s.startswith("hf_") and len(s) == 3 + 43 for s in found)


def test_only_the_hash_is_at_rest(file: Path) -> None:
    token, secret = tokens.new("shop", ["send queue:orders.*"])
    tokens.write(file, [token])
    text = file.read_text()
    assert secret not in text
    assert secret.removeprefix("hf_") not in text
    assert hashlib.sha256(secret.encode()).hexdigest() in text


def test_what_is_written_is_read_again(file: Path) -> None:
    first, _ = tokens.new("shop", ["send queue:orders.*", "publish topic:prices"])
    second = tokens.Token("cert", ("all *:*",), certificate='a "quoted"\\ näme\x7f')
    tokens.write(file, [first, second])
    assert tokens.read(file) == [first, second]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@pytest.mark.slow
def test_any_name_of_a_certificate_can_be_written(tmp_path: Path, name: str) -> None:
    token = tokens.Token("t", ("all *:*",), certificate=name)
    tokens.write(tmp_path / "t.toml", [token])
    assert tokens.read(tmp_path / "t.toml") == [token]


def test_the_file_is_for_its_owner_alone_also_when_replaced(file: Path) -> None:
    file.write_text("")
    file.chmod(0o644)
    tokens.write(file, [])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in file.parent.iterdir()] == ["tokens.toml"]


@pytest.mark.parametrize(
    ("mode", "says"), [(0o600, None), (0o640, None), (0o644, "read"), (0o602, "write")]
)
def test_a_file_open_to_everybody_is_noticed(file: Path, mode: int, says: str | None) -> None:
    file.write_text("")
    file.chmod(mode)
    found = tokens.exposed(file)
    assert (found is None) if says is None else (found and f"everybody may {says}" in found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[token]", "not TOML"),
        ("tokens = 1", r"\[\[token\]\] tables only"),
        ("token = 1", r"\[\[token\]\] tables only"),
        ("token = [1]", "entry 1"),
        (f'[[token]]\nsha256 = "{GOOD}"\nallow = []', "no name"),
        (f'[[token]]\nname = "a b"\nsha256 = "{GOOD}"\nallow = []', "no name"),
        ('[[token]]\nname = "a"\nallow = []', "sha256 or certificate"),
        ('[[token]]\nname = "a"\nsha256 = "hf_secret"\nallow = []', "never the secret itself"),
        ('[[token]]\nname = "a"\nsecret = "x"\nallow = []', "unknown key 'secret'"),
        (f'[[token]]\nname = "a"\nsha256 = "{GOOD}"\nallow = "all *:*"', "list of rights"),
        (f'[[token]]\nname = "a"\nsha256 = "{GOOD}"\nallow = ["fly queue:a"]', "'fly'"),
        (f'[[token]]\nname = "a"\nsha256 = "{GOOD}"\nallow = ["send a"]', "must end with"),
        ('[[token]]\nname = "a"\ncertificate = ""\nallow = []', "common name"),
    ],
)
def test_a_bad_file_is_refused_with_what_is_wrong(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=says) as caught:
        tokens.read(file)
    assert str(file) in str(caught.value)
    assert "hf_secret" not in str(caught.value)


@pytest.mark.parametrize(
    "second",
    [
        f'name = "a"\nsha256 = "{"1" * 64}"',
        f'name = "b"\nsha256 = "{GOOD}"',
        'name = "b"\ncertificate = "c"',
    ],
    ids=["name", "hash", "certificate"],
)
def test_two_tokens_may_not_share(file: Path, second: str) -> None:
    first = f'name = "a"\nsha256 = "{GOOD}"\ncertificate = "c"'
    file.write_text(f"[[token]]\n{first}\nallow = []\n[[token]]\n{second}\nallow = []\n")
    with pytest.raises(InvalidArgument, match="two tokens"):
        tokens.read(file)


@pytest.mark.slow
def test_tokens_added_at_once_are_all_kept(file: Path) -> None:
    def add(number: int) -> None:
        with tokens.changing(file) as found:
            found.append(tokens.new(f"t{number}", ["all *:*"])[0])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert {t.name for t in tokens.read(file)} == {f"t{n}" for n in range(24)}


def test_a_change_that_fails_changes_nothing(file: Path) -> None:
    tokens.write(file, [])
    before = file.read_bytes()
    with pytest.raises(RuntimeError), tokens.changing(file) as found:
        found.append(tokens.new("t", ["all *:*"])[0])
        raise RuntimeError
    assert file.read_bytes() == before


def test_a_missing_file_is_told_with_how_to_make_one(file: Path) -> None:
    with pytest.raises(InvalidArgument, match="holdfast token new"):
        tokens.read(file)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 65])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="no name"):
        tokens.new(name, ["all *:*"])


@pytest.mark.parametrize("allow", [[], ["fly *:*"], ["send queue"], ["send queue:"]])
def test_a_token_that_allows_nothing_or_nonsense_is_refused(allow: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        tokens.new("t", allow)
