"""Programs that know nothing of Holdfast: redis-cli, redis-benchmark, redis-py, valkey-py, node's redis."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import redis
import redis.asyncio
import valkey

from tests.server.resp.running import Running

_BROUGHT = Path(sys.prefix) / "foreign"
PATH = f"{_BROUGHT / 'bin'}{os.pathsep}{os.environ['PATH']}"
HOW = "run `python tools/foreign.py .venv`"


def program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"no {name} here; {HOW}, or install it")
    return found


def cli(door: Running, *arguments: str, typed: str | None = None) -> str:
    return subprocess.run(
        [program("redis-cli"), "-h", door.host, "-p", str(door.port), *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


# ---- redis-cli -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_cli_runs_a_command_and_ends(door: Running, name: str, version: list[str]) -> None:
    one = cli(door, *version, "MQ.PUSH", name, "hello").strip()
    assert cli(door, *version, "MQ.POP", "1", name).split() == [one, "hello"]
    assert cli(door, *version, "MQ.ACK", name, one).split() == [one]
    assert "count must be >= 1" in cli(door, *version, "MQ.POP", "0", name)


def test_redis_cli_runs_commands_that_are_piped_in(door: Running, name: str) -> None:
    lines = f"MQ.PUSH {name} a 'b c' \"d\\x00e\"\nMQ.POP 2 {name}\nMQ.QINFO {name}\n"
    out = cli(door, typed=lines).split("\n")
    assert out[4:8:2] == ["a", "b c"] or "b c" in out
    assert out[-3:] == ["1", "2", ""]


def test_redis_cli_loads_a_file_of_requests(door: Running, name: str) -> None:
    requests = "".join(
        f"*3\r\n$7\r\nMQ.PUSH\r\n${len(name)}\r\n{name}\r\n$4\r\n{i:04}\r\n" for i in range(2000)
    )
    assert "errors: 0, replies: 2000" in cli(door, "--pipe", typed=requests)
    assert cli(door, "MQ.QINFO", name).split()[1:] == ["2000", "0"]


def test_redis_cli_as_people_use_it(door: Running, name: str) -> None:
    me, terminal = pty.openpty()
    # Without a size it asks the terminal for one, in escape codes that nobody here answers.
    termios.tcsetwinsize(terminal, (24, 200))
    command = [program("redis-cli"), "-h", door.host, "-p", str(door.port)]
    quiet = os.environ | {"TERM": "xterm", "REDISCLI_HISTFILE": "/dev/null"}
    running = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=quiet, close_fds=True
    )
    os.close(terminal)
    shown = ""

    def until(pattern: str) -> None:
        nonlocal shown
        give_up = time.monotonic() + 15
        # What is typed before the prompt is back is lost.
        while not re.search(rf"{pattern}.*{door.port}> $", shown, re.DOTALL):
            assert select.select([me], [], [], give_up - time.monotonic())[0], shown
            shown += re.sub(r"\x1b\[[0-9;]*m", "", os.read(me, 4096).decode("utf-8", "replace"))
        shown = ""

    def enter(line: str) -> None:
        os.write(me, line.encode() + b"\r")

    try:
        until("")
        enter(f"mq.push {name} hello world")
        until(r'1\) "\d+-\d+"\r?\n2\) "\d+-\d+"')
        enter(f"MQ.INSPECT {name} 0 1")
        until(r'1\) 1\) "\d+-\d+"\r?\n   2\) "hello"')
        enter(f"MQ.POP 0 {name}")
        until(r"\(error\) ERR count must be >= 1")
        enter(f"MQ.POP 1 {name}.none")
        until(r"\(nil\)")
        enter("help mq.push")
        until(r"MQ\.PUSH key element.*summary: Append messages")
        enter(f"MQ.QI\t {name}")  # completed from COMMAND DOCS
        until(r"2\) \(integer\) 2\r?\n3\) \(integer\) 0")
        enter("quit")
        assert running.wait(10) == 0
    finally:
        running.kill()
        running.wait()
        os.close(me)


# ---- redis-benchmark -------------------------------------------------------------------------


@pytest.mark.parametrize("version", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_benchmark_runs(door: Running, name: str, version: list[str], r: redis.Redis) -> None:
    def bench(*what: str) -> str:
        load = ["-n", "2000", "-P", "16", "-c", "20", "-q", *version, *what]
        ran = subprocess.run(
            [program("redis-benchmark"), "-h", door.host, "-p", str(door.port), *load],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return ran.stdout + ran.stderr

    for out in (bench("-t", "ping"), bench("MQ.PUSH", name, "__rand_int__")):
        assert "requests per second" in out
        assert "rror" not in out
        assert "WARNING" not in out
    assert r.execute_command("MQ.QINFO", name)[1] >= 2000


# ---- libraries -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True])
def test_redis_py(door: Running, name: str, protocol: int, decode: bool) -> None:
    with redis.Redis(
        port=door.port, protocol=protocol, decode_responses=decode, client_name="shop"
    ) as client:
        ids = client.execute_command("MQ.PUSH", name, "a", "b")
        assert isinstance(ids[0], str if decode else bytes)
        got = client.execute_command("MQ.POP", 2, name)
        assert got == [[ids[0], "a" if decode else b"a"], [ids[1], "b" if decode else b"b"]]
        assert client.execute_command("MQ.ACK", name, *ids) == ids
        assert client.execute_command("MQ.POP", 1, name) is None
        with pytest.raises(redis.ResponseError, match="wrong number"):
            client.execute_command("MQ.PUSH", name)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_redis_py_asyncio(door: Running, name: str, protocol: int) -> None:
    async with redis.asyncio.Redis(port=door.port, protocol=protocol) as client:
        async with client.pipeline(transaction=False) as pipe:
            for i in range(20):
                pipe.execute_command("MQ.PUSH", name, f"m{i}")
            ids = [one for [one] in await pipe.execute()]
        got = await client.execute_command("MQ.POP", "COUNT", 50, "BLOCK", 1000, name)
        assert [i for _, i, _ in got] == ids
        assert await client.execute_command("MQ.ACK", name, *ids) == ids


@pytest.mark.parametrize("protocol", [2, 3])
def test_valkey_py(door: Running, name: str, protocol: int) -> None:
    with valkey.Valkey(port=door.port, protocol=protocol) as client:
        assert client.ping()
        ids = client.execute_command("MQ.PUSH", name, "a", "b")
        assert client.execute_command("MQ.POP", 2, name) == [[ids[0], b"a"], [ids[1], b"b"]]
        assert client.execute_command("MQ.ACK", name, *ids) == ids


NODE = """
const {{ createClient }} = require('redis');
(async () => {{
  const c = createClient({{ url: process.argv[2], RESP: {version} }});
  c.on('error', e => {{ console.error(e); process.exit(1); }});
  await c.connect();
  const key = process.argv[3];
  const ids = await c.sendCommand(['MQ.PUSH', key, 'a', 'b', 'c']);
  const got = await c.sendCommand(['MQ.POP', '2', key]);
  const acked = await c.sendCommand(['MQ.ACK', key, ...got.map(m => m[0])]);
  const [one, two] = await Promise.all([c.sendCommand(['MQ.QINFO', key]), c.ping()]);
  const none = await c.sendCommand(['MQ.POP', '1', key + '.none']);
  let said = '';
  try {{ await c.sendCommand(['MQ.POP', '0', key]); }} catch (e) {{ said = e.message; }}
  console.log(JSON.stringify({{ ids, got, acked, one, two, none, said }}));
  await c.close();
}})();
"""


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.slow
def test_node_redis(door: Running, name: str, version: int, tmp_path: Path) -> None:
    modules = _BROUGHT / "node_modules"
    node = program("node")
    if not (modules / "redis").is_dir():
        pytest.skip(f"node's redis is not here; {HOW}")
    script = tmp_path / "client.cjs"
    script.write_text(NODE.format(version=version))
    ran = subprocess.run(
        [node, str(script), f"redis://{door.host}:{door.port}", name],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"NODE_PATH": str(modules)},
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [body for _, body in told["got"]] == ["a", "b"]
    assert told["acked"] == told["ids"][:2]
    assert told["one"] == [told["ids"][2], 1, 0]
    assert told["two"] == "PONG"
    assert told["none"] is None
    assert told["said"] == "ERR count must be >= 1"


# ---- examples --------------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_example_for_redis_cli_runs(door: Running, name: str) -> None:
    program("redis-cli")
    ran = subprocess.run(
        ["sh", str(EXAMPLES / "redis_cli.sh"), str(door.port), name],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": PATH},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "no such customer" in ran.stdout
    assert ran.stdout.split()[-2:] == ["1", "0"]


@pytest.mark.slow
def test_the_example_for_node_runs(door: Running, name: str) -> None:
    node = program("node")
    if not (_BROUGHT / "node_modules/redis").is_dir():
        pytest.skip(f"node's redis is not here; {HOW}")
    ran = subprocess.run(
        [node, str(EXAMPLES / "node/worker.cjs"), f"redis://{door.host}:{door.port}", name],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"NODE_PATH": str(_BROUGHT / "node_modules")},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "mail to ada@example.org",
        "cannot send to no address",
        "mail to grace@example.org",
        "dead letters: 1",
    ]
