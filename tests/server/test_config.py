"""Flags over variables over the file over the defaults, and what is said about a wrong one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.commands import Commands
from holdfast.errors import InvalidArgument, NotSafe
from holdfast.server import config
from holdfast.server.config import Config
from holdfast.server.limits import Limits

# One value for each option that is not its default, as text and as TOML has it.
OTHER: dict[str, tuple[str, Any]] = {
    "url": ("redis://localhost:7000", "redis://localhost:7001"),
    "resp": ("127.0.0.1:1", "127.0.0.1:2"),
    "grpc": ("[::1]:1", "[::1]:2"),
    "reflection": ("true", True),
    "token_file": ("/t/1", "/t/2"),
    "tls_cert": ("/c/1", "/c/2"),
    "tls_key": ("/k/1", "/k/2"),
    "tls_client_ca": ("/a/1", "/a/2"),
    "insecure": ("1", True),
    "grace": ("3", 4.5),
    "wait_for_server": ("0", 1.5),
    "retry_for": ("1.5", 2.5),
    "replicas": ("1", 2),
    "check": ("off", "refuse"),
    "reap_every": ("0", 7.5),
    "log_format": ("json", "json"),
    "log_level": ("debug", "error"),
}

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def call(
        toml: str | None = None,
        env: dict[str, str] | None = None,
        limits: dict[str, str] | None = None,
        **flags: Any,
    ) -> Config:
        file = tmp_path / "server.toml"
        if toml is not None:
            file.write_text(toml)
        return config.load(flags, limits or {}, env or {}, file if toml is not None else None)

    return call


def _with_tls(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A certificate and its key come in pairs."""
    if name.startswith("tls"):
        return {"tls_cert": "/c", "tls_key": "/k"} | given
    return given


def test_every_option_has_a_value_to_try() -> None:
    assert set(OTHER) == set(config.NAMES)


@pytest.mark.parametrize("name", config.NAMES)
def test_flags_win_over_variables_over_the_file_over_the_defaults(load: Load, name: str) -> None:
    text, typed = OTHER[name]
    toml = "".join(
        f"{n} = {str(v).lower() if isinstance(v, bool) else repr(v)}\n"
        for n, v in _with_tls(name, {name: typed}).items()
    )
    rest = {k: v for k, v in _with_tls(name, {}).items() if k != name}
    env = {f"HOLDFAST_{name.upper()}": text}
    default = getattr(config.Options(), name)
    in_file = getattr(load(toml).options, name)
    in_env = getattr(load(toml, env).options, name)
    in_flag = getattr(
        load(toml, env, **{name: typed if typed is True else str(typed)}).options, name
    )
    assert in_file != default
    assert str(in_file).lower() == str(typed).lower()
    assert in_env == getattr(load(None, env, **rest).options, name)
    assert in_env == getattr(load(None, {}, **{name: text}, **rest).options, name)
    assert in_flag == in_file
    if name not in ("reflection", "insecure", "log_format"):
        assert in_env != in_file


@pytest.mark.parametrize("name", config.LIMITS)
def test_limits_have_the_same_three_layers(load: Load, name: str) -> None:
    # Large ones, since a request may not be larger than all that may be in flight.
    in_file, in_env, in_flag = 2**40 + 1, 2**40 + 2, 2**40 + 3
    more = "" if name == "in_flight_bytes" else f"in_flight_bytes = {2**41}\n"
    toml = f"[limits]\n{more}{name} = {in_file}"
    env = {f"HOLDFAST_LIMIT_{name.upper()}": str(in_env)}
    assert getattr(load(toml).limits, name) == in_file
    assert getattr(load(toml, env).limits, name) == in_env
    assert getattr(load(toml, env, {name: str(in_flag)}).limits, name) == in_flag


def test_nothing_said_means_both_doors_on_loopback(load: Load) -> None:
    found = load()
    assert {k: str(v) for k, v in found.binds.items()} == {
        "resp": "127.0.0.1:6399",
        "grpc": "127.0.0.1:6400",
    }
    assert found.limits == Limits()
    assert found.tls is None


def test_one_door_named_is_one_door_opened(load: Load) -> None:
    assert list(load(resp="[::1]:0").binds) == ["resp"]
    assert list(load(grpc="127.0.0.1:0").binds) == ["grpc"]
    assert list(load('resp = "127.0.0.1:1"', grpc="127.0.0.1:0").binds) == ["resp", "grpc"]
    assert list(load('resp = "127.0.0.1:1"', resp="off", grpc="127.0.0.1:0").binds) == ["grpc"]


def test_no_door_at_all_is_refused(load: Load) -> None:
    with pytest.raises(InvalidArgument, match="no door"):
        load(resp="off")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("grase = 3", r"server\.toml: there is no option 'grase'; did you mean 'grace'\?"),
        ("[limits]\nbach = 3", r"\[limits\] in .*'bach'; did you mean 'batch'\?"),
        ("[limit]\nbatch = 3", "did you mean 'limits'"),
        ("zzz = 3", "there are: url, resp"),
        ("limits = 3", "must be a table"),
        ("grace", "is not TOML"),
        ('grace = "3"', "grace in .*server.toml is wrong: expected float, not '3'"),
        ("grace = -1", "grace in .*server.toml must be seconds, 0 or more, not -1"),
        ("grace = nan", "must be seconds"),
        ('check = "maybe"', "check in .* is wrong: invalid enum value.*not 'maybe'"),
        ("insecure = 3", "insecure in .* is wrong: expected bool"),
        ("[limits]\nbatch = 1.5", "limits.batch in .* is wrong: expected int"),
        ("[limits]\nbatch = 0", "limits.batch in .* must be 1 or more, not 0"),
        ("[limits]\nidle_seconds = -1", "must be 0 or more"),
        ("[limits]\nrequest_bytes = 10\nin_flight_bytes = 9", "must be at most"),
        ('resp = "6399"', "resp in .*server.toml: '6399' is not HOST:PORT"),
        ('tls_cert = "x"', "tls_key is missing"),
        ('tls_client_ca = "x"', "tls_cert is missing"),
    ],
)
def test_a_wrong_file_is_refused_with_what_and_where(load: Load, toml: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        load(toml)


def test_a_wrong_variable_or_flag_is_named(load: Load) -> None:
    with pytest.raises(InvalidArgument, match=r"HOLDFAST_GRACE is wrong: expected float.*'soon'"):
        load(env={"HOLDFAST_GRACE": "soon"})
    with pytest.raises(InvalidArgument, match="--wait-for-server is wrong"):
        load(wait_for_server="soon")
    with pytest.raises(InvalidArgument, match=r"HOLDFAST_LIMIT_BACH.*did you mean 'batch'\?"):
        load(env={"HOLDFAST_LIMIT_BACH": "1"})
    with pytest.raises(InvalidArgument, match=r"--limit: .*'bach'; did you mean 'batch'\?"):
        load(limits={"bach": "1"})


def test_variables_of_other_programs_and_empty_ones_are_left_alone(load: Load) -> None:
    env = {"HOLDFAST_HOME": "x", "HOLDFAST_TOKEN": "y", "HOLDFAST_GRACE": "", "GRACE": "1"}
    assert load(env=env).options == config.Options()


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the config file"):
        config.load({}, {}, {}, tmp_path / "nowhere.toml")


def test_files_named_in_the_file_are_beside_it(load: Load, tmp_path: Path) -> None:
    assert load('token_file = "t.toml"').options.token_file == tmp_path / "t.toml"
    assert load('token_file = "/etc/t.toml"').options.token_file == Path("/etc/t.toml")
    assert load(token_file="t.toml").options.token_file == Path("t.toml")


def test_strangers_are_refused_before_anything_listens(load: Load) -> None:
    with pytest.raises(NotSafe, match=r"the grpc door on 0\.0\.0\.0:1 could be used by anybody"):
        load(resp="127.0.0.1:0", grpc="0.0.0.0:1")
    with pytest.raises(NotSafe, match="clear text"):
        load(resp="0.0.0.0:1", token_file="t")
    load(resp="0.0.0.0:1", token_file="t", insecure=True)
    load(resp="0.0.0.0:1", token_file="t", tls_cert="c", tls_key="k")
    load(resp="0.0.0.0:1", tls_cert="c", tls_key="k", tls_client_ca="a")


def test_what_is_shown_says_whence_and_can_be_read_again(load: Load, tmp_path: Path) -> None:
    first = load(
        "grace = 5\n[limits]\nbatch = 7\nconnections = 8",
        {"HOLDFAST_LOG_LEVEL": "debug"},
        {"batch": "9"},
        reflection=True,
    )
    text = first.toml()
    assert re.search(r"grace = 5\.0 +# grace in .*server\.toml", text)
    assert re.search(r'log_level = "debug" +# HOLDFAST_LOG_LEVEL', text)
    assert re.search(r"reflection = true +# --reflection", text)
    assert re.search(r"batch = 9 +# --limit batch", text)
    assert re.search(r"retry_for = 5\.0 +# default", text)
    tomllib.loads(text)
    assert load(text).shown() == first.shown()


@pytest.mark.parametrize(
    "url",
    ["redis://user:s3cret@h:1/0", "unix://:s3cret@/run/x.sock", "rediss+sentinel://:s3cret@h:1/m"],
)
def test_a_password_is_never_shown(load: Load, url: str) -> None:
    found = load(url=url)
    assert "s3cret" not in found.toml()
    assert "s3cret" not in str(found.shown())


def test_a_wrong_url_does_not_show_its_password(load: Load) -> None:
    with pytest.raises(InvalidArgument) as caught:
        load(url="http://user:s3cret@h")
    assert "s3cret" not in str(caught.value)


def _flags() -> set[str]:
    return {word for parameter in Commands()["serve"].params for word in parameter.opts}


@pytest.mark.parametrize("name", config.NAMES)
def test_every_option_is_a_flag_and_in_the_documentation(name: str) -> None:
    assert f"--{name.replace('_', '-')}" in _flags()
    assert f"| `{name}` |" in _documentation()


@pytest.mark.parametrize("name", config.LIMITS)
def test_every_limit_is_in_the_documentation_with_its_default(name: str) -> None:
    default = getattr(Limits(), name)
    assert f"| `{name}` | {int(default):,} |" in _documentation()


def _documentation() -> str:
    return (Path(holdfast.__file__).parents[2] / "docs" / "server.md").read_text()
