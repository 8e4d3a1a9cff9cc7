"""holdfast doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import embedded
from holdfast.engine import library
from holdfast.settings import IF_SET
from tests.cli.conftest import Run, Start
from tests.servers import cluster, standalone


def test_doctor_finds_nothing_bad_on_a_safe_server(run: Run, tmp_path: Path) -> None:
    with standalone(tmp_path, durability="durable") as url:
        before = run("doctor", "--url", url)
        assert (before.status, before.err) == (0, "nothing is bad\n")
        assert before.lines[0] == f"holdfast {holdfast.__version__}, remote server at {url}"
        assert f"not loaded yet; the first use loads {library.version()}" in before.out
        assert "durable: on disk before the answer" in before.out
        run("send", "q", "x", "--url", url)
        assert f"hf1 {library.version()} is loaded" in run("doctor", "--url", url).out


def test_doctor_on_a_server_that_may_lose_messages_says_bad_and_how_to_fix_it(
    run: Run, tmp_path: Path
) -> None:
    options: dict[str, str] = {
        "appendonly": "no",
        "maxmemory": "100mb",
        "maxmemory_policy": "allkeys-lru",
    }
    with standalone(tmp_path, **options) as url:
        result = run("doctor", "--url", url)
        found = run("doctor", "--url", url, "--json")
    assert (result.status, result.err) == (1, "something is bad: see above\n")
    rows = {line.split()[1]: line for line in result.lines if line.strip().startswith("bad")}
    assert set(rows) == {"eviction", "durability"}
    assert "allkeys-lru: a full server throws messages away" in rows["eviction"]
    assert "CONFIG SET maxmemory-policy noeviction" in rows["eviction"]
    assert "none: a crash or restart loses every message" in rows["durability"]
    assert "CONFIG SET appendonly yes" in rows["durability"]
    assert found.status == 1
    assert (found.object["ok"], found.object["server"]) == (False, "remote")
    [node] = found.object["nodes"]
    levels = {finding["topic"]: finding["level"] for finding in node["findings"]}
    assert levels == {
        "server": "ok",
        "eviction": "bad",
        "durability": "bad",
        "replicas": "ok",
        "functions": "ok",
    }


@pytest.mark.slow
def test_every_other_command_warns_of_such_a_server_in_one_line(
    start: Start, run: Run, tmp_path: Path
) -> None:
    with standalone(tmp_path, appendonly="no") as url:
        process = start("send", "q", "x", "--url", url)
        out, err = process.communicate(timeout=60)
        in_json = run("send", "q", "x", "--url", url, "--json")
    assert (process.returncode, len(out.splitlines())) == (0, 1)
    [line] = err.decode().splitlines()
    assert line.startswith("warning: durability at ")
    assert "to fix it: CONFIG SET appendonly yes" in line
    assert in_json.err.startswith('{"warning":{"message":"durability at ')


@pytest.mark.slow
def test_doctor_examines_each_node_of_a_cluster(run: Run, tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        url = "redis://" + ",".join(f"{host}:{port}" for host, port in nodes)
        result = run("doctor", "--url", url)
        found = run("doctor", "--url", url, "--json").object
    assert result.status == 0
    assert sum(line.startswith("node ") for line in result.lines) == 3
    assert {node["node"] for node in found["nodes"]} == {f"{h}:{p}" for h, p in nodes}


def test_doctor_where_no_server_answers_says_so_soon(run: Run) -> None:
    result = run("doctor", "--url", "redis://127.0.0.1:1")
    assert result.status == 75
    assert result.err.startswith("error: no answer from redis://127.0.0.1:1/0 for 0.5 s: ")


@pytest.mark.slow
def test_doctor_repairs_what_a_power_cut_has_damaged_and_tells_what_is_gone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_URL")
    folder = tmp_path / "home" / "appendonlydir"
    with holdfast.connect(home=tmp_path / "home", durability="fast") as hf:
        hf.queue("orders").send(b"kept")
        hf.queue("bills").send_many([b"x"] * 3)
    embedded.down(tmp_path / "home")
    [file] = folder.glob("*.incr.aof")
    file.write_bytes(file.read_bytes()[:-10] + bytes(100))
    failed = run("doctor")
    assert failed.status == 75
    assert "`holdfast doctor --repair`" in failed.err
    mended = run("doctor", "--repair")
    assert mended.status == 0, mended.err
    assert f"cut off {file.name} behind " in mended.lines[0]
    assert "1 call among them" in mended.lines[0]
    assert "they were about bills (" in mended.lines[0]
    assert mended.lines[1].startswith("everything is kept as it was in ")
    embedded.down(tmp_path / "home")
    again = run("doctor", "--repair", "--json").object
    assert (again["ok"], again["repair"]["copy"], again["repair"]["cuts"]) == (True, None, [])
    embedded.down(tmp_path / "home")


def test_doctor_repairs_only_the_embedded_server(run: Run) -> None:
    result = run("doctor", "--repair", "--url", "redis://127.0.0.1:1")
    assert result.status == 64
    assert "--repair is for the embedded server" in result.err


def test_doctor_and_stats_name_queues_that_hold_messages_without_a_lease(
    run: Run, tmp_path: Path
) -> None:
    with standalone(tmp_path, durability="durable") as url, holdfast.connect(url) as client:
        leased, held = client.queue("leased"), client.queue("held for ever")
        for queue in (leased, held):
            queue.send_many(["a", "b"])
        began = held.stats().now
        held.receive_many(2, lease=IF_SET)
        leased.receive_many(2, lease=24 * 3600)
        assert run("stats", "--url", url).err == ""
        for queue in (leased, held):
            queue.set_clock(began + 2 * 3600_000)
        says = "'held for ever' holds 2 messages without a lease, the oldest taken 2 h ago"
        how = "holdfast recover 'held for ever' --elapsed 1h"
        assert run("stats", "--url", url).err == f"{says}: {how}\n"
        [found] = run("doctor", "--url", url, "--json").object["queues"]
        assert (found["level"], found["says"], found["fix"]) == ("warn", says, how)
        assert "held for ever" in run("doctor", "--url", url).out
