"""holdfast serve and holdfast token as a person at a terminal meets them; tests/server has the
server at work."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.server import tokens
from holdfast.server.gate import Gate
from tests.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_print_config_shows_what_is_in_force_and_no_password(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "redis://:s3cret@localhost:1")
    result = run("serve", "--print-config", "--grace", "3", "--limit", "batch=5")
    assert result.status == 0
    found = tomllib.loads(result.out)
    assert found["url"] == "redis://localhost:1/0"
    assert found["grace"] == 3.0
    assert found["limits"]["batch"] == 5
    assert "# HOLDFAST_URL" in result.out
    assert "s3cret" not in result.out + result.err


def test_print_config_is_json_for_scripts(run: Run) -> None:
    found = run("serve", "--print-config", "--json", "--resp", "127.0.0.1:0").object
    assert found["resp"] == "127.0.0.1:0"
    assert found["grpc"] == "off"
    assert found["limits"]["arguments"] == 20_000


def test_the_config_file_is_named_by_flag_or_variable(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("grace = 1")
    two.write_text("grace = 2")
    monkeypatch.setenv("HOLDFAST_CONFIG", str(one))
    assert run("serve", "--print-config", "--json").object["grace"] == 1
    assert run("serve", "--print-config", "--json", "--config", str(two)).object["grace"] == 2


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--resp", "0.0.0.0:0"), 69, "could be used by anybody"),
        (("--resp", "0.0.0.0:0", "--token-file", "t"), 69, "clear text"),
        (("--resp", "6399"), 64, "not HOST:PORT"),
        (("--limit", "bach=1"), 64, "did you mean 'batch'?"),
        (("--limit", "batch"), 64, "not name=value"),
        (("--grace", "soon"), 64, "--grace is wrong"),
        (("--token-file", "nowhere.toml", "--resp", "127.0.0.1:0"), 64, "no token file"),
        (("--tls-cert", "c.pem", "--tls-key", "k.pem"), 64, "cannot read the tls cert file c.pem"),
        (("--config", "nowhere.toml"), 64, "cannot read the config file"),
    ],
)
def test_what_cannot_be_served_is_refused_at_start(
    run: Run, words: tuple[str, ...], status: int, says: str
) -> None:
    result = run("serve", *words)
    assert result.status == status
    assert says in result.err.splitlines()[-1]
    assert result.out == ""


@pytest.mark.slow
def test_serve_without_the_extra_packages_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['grpc'] = None\nfrom holdfast.cli.main import run; run()"
    process = subprocess.run(
        [sys.executable, "-c", hidden, "serve", "--grpc", "127.0.0.1:0"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 69
    assert b"pip install 'holdfast[server]'" in process.stderr


@pytest.mark.slow
def test_no_other_command_imports_the_server() -> None:
    asks = (
        "import sys\nfrom holdfast.cli.commands import Commands\nlist(Commands().values())\n"
        "print([m for m in sys.modules if m.startswith(('holdfast.server', 'grpc', 'uvloop'))])"
    )
    found = subprocess.run([sys.executable, "-c", asks], capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


# ---- token --------------------------------------------------------------------------------


def test_token_new_prints_the_secret_alone_and_keeps_its_hash(run: Run, file: Path) -> None:
    result = run("token", "new", "shop", "--allow", "send queue:orders.*", "--file", str(file))
    assert result.status == 0
    [secret] = result.lines
    assert secret not in result.err
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    who = Gate(tokens.read(file)).enter(secret)
    assert who.name == "shop"
    assert who.may("send", "queue", "orders.eu")


def test_token_new_takes_several_rights_and_a_certificate(run: Run, file: Path) -> None:
    words = ("--allow", "consume queue:a", "--allow", "stats *:*", "--certificate", "cn")
    found = run("token", "new", "w", *words, "--file", str(file), "--json").object
    assert found["name"] == "w"
    assert found["allow"] == ["consume queue:a", "stats *:*"]
    [token] = tokens.read(file)
    assert token.certificate == "cn"
    assert Gate([token]).enter(found["secret"]).name == "w"


def test_a_name_is_taken_once(run: Run, file: Path) -> None:
    again = ("token", "new", "shop", "--allow", "all *:*", "--file", str(file))
    assert run(*again).status == 0
    before = file.read_bytes()
    result = run(*again)
    assert result.status == 64
    assert "holdfast token revoke shop" in result.err
    assert file.read_bytes() == before


def test_a_right_that_makes_no_sense_is_refused_and_nothing_written(run: Run, file: Path) -> None:
    result = run("token", "new", "shop", "--allow", "fly queue:a", "--file", str(file))
    assert result.status == 64
    assert "'fly'" in result.err
    assert not file.exists()


def test_token_list_shows_names_and_rights_and_no_hash(run: Run, file: Path) -> None:
    run("token", "new", "shop", "--allow", "send queue:orders.*", "--file", str(file))
    [token] = tokens.read(file)
    assert token.digest is not None
    table = run("token", "list", "--file", str(file))
    assert "shop" in table.out
    assert "send queue:orders.*" in table.out
    as_json = run("token", "list", "--file", str(file), "--json")
    assert as_json.object["allow"] == ["send queue:orders.*"]
    assert token.digest.hex() not in table.out + as_json.out


def test_token_list_warns_of_a_file_that_everybody_can_read(run: Run, file: Path) -> None:
    run("token", "new", "shop", "--allow", "all *:*", "--file", str(file))
    file.chmod(0o644)
    assert "everybody may read" in run("token", "list", "--file", str(file)).err


def test_a_revoked_token_is_gone_and_the_others_stay(run: Run, file: Path) -> None:
    one = run("token", "new", "one", "--allow", "all *:*", "--file", str(file)).lines[0]
    two = run("token", "new", "two", "--allow", "all *:*", "--file", str(file)).lines[0]
    assert run("token", "revoke", "one", "--file", str(file)).status == 0
    gate = Gate(tokens.read(file))
    assert gate.enter(two).name == "two"
    with pytest.raises(Exception, match="revoked"):
        gate.enter(one)


def test_revoking_what_is_not_there_says_what_is(run: Run, file: Path) -> None:
    assert "no token file" in run("token", "revoke", "one", "--file", str(file)).err
    assert not file.exists()
    run("token", "new", "one", "--allow", "all *:*", "--file", str(file))
    result = run("token", "revoke", "two", "--file", str(file))
    assert result.status == 64
    assert "there are: one" in result.err


def test_the_token_file_can_be_named_by_the_servers_variable(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN_FILE", str(file))
    assert run("token", "new", "shop", "--allow", "all *:*").status == 0
    assert tokens.read(file)[0].name == "shop"
    assert os.fspath(file) in run("serve", "--print-config").out
