"""Assembles the Lua files into the function library that FUNCTION LOAD takes.

A transition is `lua/<verb>.lua`; it defines `T.<verb>` and opens with a comment that names its
KEYS, ARGV, Reply, Errors, Cost and, where it has any, Flags. One that is `Named` is registered a second time,
as `<verb>_named`: the same, with a name behind its arguments by which a repetition is known (`lua/shared/
memory.lua`). What several share is in
`lua/shared/`, on one table `HF` (a chunk may have 200 locals, a function 60 upvalues). Key suffixes
come from `keys.py` as table `K`, default settings from `settings.py`: no Lua file spells either.

The library is called hf1, and so are its functions: a later, incompatible one will be hf2, and both
can live on one server. Within hf1 the revision below only grows. Raise it with each release that
changes the Lua; a server with an older revision is brought up to date at the next call that finds
out, a newer one is left alone. `make check` compares with `lua/releases.txt`, so it cannot be forgotten.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec

from holdfast import settings
from holdfast.engine import keys

NAME = "hf1"
REVISION = 5

_SHARED = (
    "queue",
    "memory",
    "record",
    "fit",
    "note",
    "wake",
    "groups",
    "ready",
    "batch",
    "lease",
    "dead",
    "dedup",
    "unique",
    "result",
    "reservation",
    "reclaim",
    "due",
    "sweep",
    "intake",
    "topic",
    "filter",
    "text",
)
_HEADINGS = ("KEYS", "ARGV", "Reply", "Errors", "Cost")
_FLAGS = {"no-writes", "allow-oom", "deny-oom"}


class LibraryError(Exception):
    """A Lua file breaks a rule of this library; the message says which and where."""


def _lua() -> Traversable:
    return resources.files("holdfast.engine") / "lua"


def transitions() -> list[str]:
    """The verbs, in alphabetical order."""
    return sorted(f.name[:-4] for f in _lua().iterdir() if f.name.endswith(".lua"))


def _checked_head(verb: str, source: str) -> tuple[list[str], bool]:
    """Its flags, and whether it can be called under a name."""
    head = re.match(r"--\[\[ (\w+): (.*?)\]\]", source, re.DOTALL)
    if not head or head[1] != verb:
        raise LibraryError(f"lua/{verb}.lua must open with '--[[ {verb}: …'")
    missing = [word for word in _HEADINGS if not re.search(rf"^  {word} ", head[2], re.MULTILINE)]
    if missing:
        raise LibraryError(f"the head of lua/{verb}.lua does not say its {', '.join(missing)}")
    if not re.search(rf"^function T\.{verb}\(keys, args(, q)?\)$", source, re.MULTILINE):
        raise LibraryError(f"lua/{verb}.lua must define T.{verb}(keys, args)")
    flags = re.search(r"^  Flags  (.*?)\s*$", head[2], re.MULTILINE)
    named = flags[1].split(", ") if flags else []
    if set(named) - _FLAGS:
        raise LibraryError(f"lua/{verb}.lua names unknown flags: {', '.join(named)}")
    # deny-oom is what a function without flags does; spelling it out documents the choice.
    by_name = re.search(r"^  Named  yes\s*$", head[2], re.MULTILINE) is not None
    return [flag for flag in named if flag != "deny-oom"], by_name


def _check_body(file: str, source: str) -> None:
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(r"['\"]hf1:|\.\. *['\"]:", line):
            raise LibraryError(f"{file}:{number} spells a key; keys.py is the only place for that")
        if re.search(r"\b(KEYS|ARGV)\[", line):
            raise LibraryError(f"{file}:{number} indexes KEYS or ARGV; a function gets keys, args")
    for used in re.findall(r"\bK\.(\w+)", source):
        if used not in keys.CATALOGUE:
            raise LibraryError(f"{file} uses key '{used}', which keys.py does not know")


def _table(entries: dict[str, str | int]) -> str:
    parts = (
        f"{name} = {value if isinstance(value, int) else repr(value)}"
        for name, value in entries.items()
    )
    return "{ " + ", ".join(parts) + " }"


@cache
def source() -> str:
    """The whole library, ready for FUNCTION LOAD. Raises LibraryError where a file breaks a rule."""
    suffixes: dict[str, str | int] = {name: entry[0] for name, entry in keys.CATALOGUE.items()}
    # `edition` is kept with the settings, and is none that users set: see configure.lua.
    defaults = {**msgspec.to_builtins(settings.WireSettings()), "edition": 0}
    parts = [
        "local HF, T = {}, {}",
        f"local K = {_table(suffixes)}",
        f"HF.TYPES = {_table({name: entry[1] for name, entry in keys.CATALOGUE.items()})}",
        f"HF.DEFAULTS = {_table(defaults)}",
    ]
    found = {f.name[:-4] for f in (_lua() / "shared").iterdir() if f.name.endswith(".lua")}
    if found != set(_SHARED):
        raise LibraryError(f"lua/shared holds {sorted(found)}, library.py lists {sorted(_SHARED)}")
    for name in _SHARED:
        text = (_lua() / "shared" / f"{name}.lua").read_text("utf-8")
        _check_body(f"lua/shared/{name}.lua", text)
        parts.append(f"do\n{text}end")
    for verb in transitions():
        text = (_lua() / f"{verb}.lua").read_text("utf-8")
        flags, by_name = _checked_head(verb, text)
        _check_body(f"lua/{verb}.lua", text)
        parts.append(f"do\n{text}end")
        listed = ", ".join(repr(flag) for flag in flags)
        parts.append(
            f"redis.register_function{{ function_name = '{NAME}_{verb}', "
            f"callback = T.{verb}, flags = {{ {listed} }} }}"
        )
        if by_name:
            parts.append(
                f"redis.register_function{{ function_name = '{NAME}_{verb}_named', callback = function("
                f"keys, args) return HF.by_name('{verb}', keys, args) end, flags = {{ {listed} }} }}"
            )
    body = "\n".join(parts)
    mark = f"{REVISION}:{hashlib.sha256(body.encode()).hexdigest()[:12]}"
    return (
        f"#!lua name={NAME}\n{body}\n"
        f"redis.register_function{{ function_name = '{NAME}_version', "
        f"callback = function() return '{mark}' end, flags = {{ 'no-writes' }} }}\n"
    )


@cache
def version() -> str:
    """`revision:hash` of this library, as its own hf1_version answers."""
    found = re.search(r"return '(\d+:\w+)' end", source())
    assert found
    return found[1]


def outdated(answer: str) -> bool:
    """Should a server whose hf1_version answers this get our library instead?"""
    revision = int(answer.partition(":")[0])
    return revision < REVISION or (revision == REVISION and answer != version())
