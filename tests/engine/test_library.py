"""The builder of the function library: each rule it checks, and when a server's copy is replaced."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path

import pytest

from holdfast import Client, Queue
from holdfast.engine import library
from holdfast.engine.keys import CATALOGUE
from holdfast.engine.library import LibraryError
from tests.raw import Raw

Edit = Callable[[str, Callable[[str], str]], None]


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edit]:
    """Changes one file in a copy of the Lua sources, of which the library is then built."""
    source = resources.files("holdfast.engine") / "lua"
    with resources.as_file(source) as folder:
        shutil.copytree(folder, tmp_path / "lua")
    monkeypatch.setattr(library, "_lua", lambda: tmp_path / "lua")

    def change(name: str, how: Callable[[str], str]) -> None:
        path = tmp_path / "lua" / name
        path.write_text(how(path.read_text("utf-8") if path.exists() else ""), "utf-8")
        library.source.cache_clear()
        library.version.cache_clear()

    library.source.cache_clear()
    library.version.cache_clear()
    yield change
    library.source.cache_clear()
    library.version.cache_clear()


def breaks(edit: Edit, name: str, how: Callable[[str], str], says: str) -> None:
    edit(name, how)
    with pytest.raises(LibraryError) as broken:
        library.source()
    assert str(broken.value) == says


def test_the_library_as_it_is_keeps_all_rules(edit: Edit) -> None:
    assert library.source().startswith("#!lua name=hf1\n")


def test_a_file_must_open_with_its_verb(edit: Edit) -> None:
    says = "lua/ack.lua must open with '--[[ ack: …'"
    breaks(edit, "ack.lua", lambda s: s.replace("--[[ ack:", "--[[ akk:"), says)
    breaks(edit, "ack.lua", lambda s: "local x\n" + s, says)


@pytest.mark.parametrize("heading", ["KEYS", "ARGV", "Reply", "Errors", "Cost"])
def test_the_head_must_say(edit: Edit, heading: str) -> None:
    breaks(
        edit,
        "ack.lua",
        lambda s: s.replace(f"  {heading} ", "  Other "),
        f"the head of lua/ack.lua does not say its {heading}",
    )


def test_a_file_must_define_its_transition(edit: Edit) -> None:
    breaks(
        edit,
        "ack.lua",
        lambda s: s.replace("function T.ack(keys, args, q)", "function T.ack(k, a)"),
        "lua/ack.lua must define T.ack(keys, args)",
    )


def test_flags_must_be_known(edit: Edit) -> None:
    breaks(
        edit,
        "ack.lua",
        lambda s: s.replace("Flags  allow-oom", "Flags  allow-all"),
        "lua/ack.lua names unknown flags: allow-all",
    )


@pytest.mark.parametrize("line", ['local k = "hf1:x"', "local k = base .. ':x'", "x = 'hf1:y'"])
@pytest.mark.parametrize("file", ["ack.lua", "shared/lease.lua"])
def test_no_lua_file_spells_a_key(edit: Edit, file: str, line: str) -> None:
    last = len((resources.files("holdfast.engine") / "lua" / file).read_text("utf-8").splitlines())
    breaks(
        edit,
        file,
        lambda s: s + line + "\n",
        f"lua/{file}:{last + 1} spells a key; keys.py is the only place for that",
    )


@pytest.mark.parametrize("word", ["KEYS", "ARGV"])
def test_no_lua_file_indexes_keys_by_number(edit: Edit, word: str) -> None:
    last = len((resources.files("holdfast.engine") / "lua" / "ack.lua").read_text().splitlines())
    breaks(
        edit,
        "ack.lua",
        lambda s: f"{s}local x = {word}[1]\n",
        f"lua/ack.lua:{last + 1} indexes KEYS or ARGV; a function gets keys, args",
    )


def test_only_keys_of_the_catalogue_are_used(edit: Edit) -> None:
    breaks(
        edit,
        "ack.lua",
        lambda s: s + "local x = K.cellar\n",
        "lua/ack.lua uses key 'cellar', which keys.py does not know",
    )


def test_shared_files_must_be_listed(edit: Edit) -> None:
    edit("shared/extra.lua", lambda s: "-- more")
    with pytest.raises(LibraryError, match=r"lua/shared holds \[.*'extra'.*\], library.py lists"):
        library.source()


def test_every_transition_is_documented_and_registered() -> None:
    source = library.source()
    verbs = library.transitions()
    assert verbs == sorted(verbs)
    assert {"send", "receive", "ack", "nack", "extend", "recover", "redrive"} <= set(verbs)
    registered = re.findall(r"function_name = 'hf1_(\w+)'", source)
    assert [name for name in registered if not name.endswith("_named")] == [*verbs, "version"]


def test_what_is_named_is_registered_a_second_time(edit: Edit) -> None:
    registered = re.findall(r"function_name = 'hf1_(\w+)_named'", library.source())
    assert {"ack", "nack", "extend", "settle", "redrive"} <= set(registered)
    edit("ack.lua", lambda s: s.replace("  Named  yes\n", ""))
    fewer = re.findall(r"function_name = 'hf1_(\w+)_named'", library.source())
    assert set(registered) - set(fewer) == {"ack"}


def test_every_key_of_the_catalogue_is_used() -> None:
    source = library.source()
    for name in CATALOGUE:
        assert re.search(rf"\bK\.{name}\b|K\[name\]|'{name}'", source), name


def test_read_only_transitions_are_flagged_so_and_only_those() -> None:
    flags = dict(
        re.findall(r"function_name = 'hf1_(\w+)', callback = T\.\w+, flags = { (.*?) } }", library.source())
    )  # fmt: skip
    assert {v for v, f in flags.items() if "no-writes" in f} == {
        "get",
        "inspect",
        "reservations",
        "reserved",
        "seat",
        "sources",
        "stats",
        "subscriptions",
    }
    # A full server can be drained, but not filled.
    assert {v for v, f in flags.items() if f == ""} >= {
        "send",
        "configure",
        "redrive",
        "open_join",
        "keep",
    }
    for verb in (
        "receive",
        "ack",
        "nack",
        "extend",
        "recover",
        "remove",
        "purge",
        "tend",
        "commit",
        "settle",
        "unname",
        "permit",
        "unpermit",
        "join",
        "cancel",
    ):
        assert flags[verb] == "'allow-oom'"


def test_the_version_changes_with_every_change_of_the_source(edit: Edit) -> None:
    before = library.version()
    edit("ack.lua", lambda s: s + "-- a remark\n")
    assert library.version() != before
    assert library.version().startswith(f"{library.REVISION}:")


@pytest.mark.parametrize(
    ("answer", "replace"),
    [(-1, True), (0, True), (1, False), (10, False)],
)
def test_a_server_gets_our_library_unless_it_has_a_newer_one(answer: int, replace: bool) -> None:
    assert library.outdated(f"{library.REVISION + answer}:other") is replace


def test_a_server_with_our_library_keeps_it() -> None:
    assert not library.outdated(library.version())


@pytest.mark.only("standalone", "redis7", reason="one server is enough")
def test_the_server_has_the_library_and_tells_its_version(q: Queue, raw: Raw) -> None:
    q.stats()
    assert raw.everywhere("FCALL", "hf1_version", 0) == [library.version().encode()]


@pytest.mark.only("standalone", "cluster", "redis7", reason="loading is the same with shards")
def test_a_library_that_went_missing_is_loaded_again(hf: Client, q: Queue, raw: Raw) -> None:
    q.send(b"x")
    raw.everywhere("FUNCTION", "DELETE", "hf1")
    try:
        got = q.receive()
        assert got is not None
        assert got.body == b"x"
    finally:
        # On nodes that this queue is not on, too: other tests call functions behind the client's back.
        raw.everywhere("FUNCTION", "LOAD", "REPLACE", library.source())
