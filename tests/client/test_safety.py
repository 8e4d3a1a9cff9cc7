"""What connecting says about a server that may lose messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.exceptions import ResponseError

import holdfast
from holdfast import HoldfastWarning, NotSafe
from holdfast.client import failures, safety
from tests.servers import standalone_server


def test_a_server_without_persistence_is_warned_about(tmp_path: Path) -> None:
    with standalone_server(tmp_path, appendonly="no") as server, holdfast.connect(server.url) as hf:
        with pytest.warns(
            HoldfastWarning, match="a crash or restart loses every message"
        ) as caught:
            hf.queue("q").send(b"x")
        assert "to fix it: CONFIG SET appendonly yes" in str(caught[0].message)


def test_a_server_that_evicts_is_refused_if_you_wish(tmp_path: Path) -> None:
    options = {"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"}
    with (
        standalone_server(tmp_path, **options) as server,
        holdfast.connect(server.url, check="refuse") as hf,
        pytest.raises(NotSafe, match="allkeys-lru: a full server throws messages away"),
    ):
        hf.queue("q").send(b"x")


def test_a_good_server_is_connected_to_without_a_word(tmp_path: Path) -> None:
    with (
        standalone_server(tmp_path, durability="durable") as server,
        holdfast.connect(server.url, check="refuse") as hf,
    ):
        hf.queue("q").send(b"x")
        [found] = hf.examine().values()
        assert {f.level for f in found} == {"ok"}


@pytest.mark.parametrize(
    ("info", "config", "word"),
    [
        ({"aof_enabled": "1"}, {"appendfsync": "always"}, "durable"),
        ({"aof_enabled": "1"}, {"appendfsync": "everysec"}, "fast"),
        ({"aof_enabled": "1"}, {}, "unknown"),
        ({"aof_enabled": "0"}, {"save": "3600 1"}, "snapshot"),
        ({"aof_enabled": "0"}, {"save": ""}, "none"),
    ],
)
def test_durability_has_an_honest_name(
    info: dict[str, str], config: dict[str, str], word: str
) -> None:
    assert safety.durability(info, config) == word


@pytest.mark.parametrize(
    ("info", "level", "says"),
    [
        ({"redis_version": "6.2.14"}, "bad", "Redis 6.2.14 is too old"),
        ({"redis_version": "7.0.15"}, "ok", "Redis 7.0.15"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, "bad", "Valkey 7.2.5 is too old"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "ok", "Valkey 9.1.2"),
        (
            {"redis_version": "7.4", "dragonfly_version": "df-1.30"},
            "bad",
            "Dragonfly df-1.30 has no functions",
        ),
    ],
)
def test_servers_that_are_too_old_are_known(info: dict[str, str], level: str, says: str) -> None:
    found = safety.findings(info, {})[0]
    assert (found.topic, found.level, found.says) == ("server", level, says)


@pytest.mark.parametrize(
    ("replicas", "least", "levels"),
    [("0", "0", ["ok"]), ("1", "1", ["ok"]), ("2", "0", ["ok", "warn"]), ("2", None, ["ok"])],
)
def test_a_primary_that_may_go_on_alone_is_known(
    replicas: str, least: str | None, levels: list[str]
) -> None:
    config = {} if least is None else {"min-replicas-to-write": least}
    found = safety.findings({"connected_slaves": replicas}, config)[3:]
    assert [f.level for f in found] == levels
    if replicas != "0":
        assert f"connect(replicas={replicas})" in found[0].says


def test_a_server_that_wants_all_keys_declared_is_told_apart() -> None:
    error = failures.translated(ResponseError("ERR script tried accessing undeclared key"))
    assert isinstance(error, holdfast.Unsupported)
    assert "docs/servers.md" in str(error)


@pytest.mark.slow
def test_a_full_server_refuses_sends_and_can_be_drained(tmp_path: Path) -> None:
    options = {"maxmemory": "30mb"}
    with standalone_server(tmp_path, **options) as server, holdfast.connect(server.url) as hf:
        q = hf.queue("q")
        sent = 0
        with pytest.raises(holdfast.ServerFull):
            for _ in range(200):
                sent += len(q.send_many([b"x" * 10_000] * 100))
        got = 0
        while deliveries := q.receive_many(100):
            got += len(q.ack_many(deliveries))
        assert got == sent > 0
        q.send(b"there is room again")
