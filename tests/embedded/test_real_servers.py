"""The servers that the other tests run on are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.servers import (
    HOST,
    DidNotStartError,
    cluster,
    debian_redis,
    sentinel,
    standalone,
    standalone_server,
    wait_until,
)


def test_standalone_takes_options(tmp_path: Path) -> None:
    with (
        standalone(tmp_path, "durable", maxmemory="10mb", maxmemory_policy="allkeys-lru") as url,
        redis.Redis.from_url(url, decode_responses=True) as client,
    ):
        assert client.config_get("maxmemory", "maxmemory-policy", "appendfsync") == {
            "maxmemory": str(10 * 1024 * 1024),
            "maxmemory-policy": "allkeys-lru",
            "appendfsync": "always",
        }


def test_a_killed_server_restarts_with_its_data(tmp_path: Path) -> None:
    with standalone_server(tmp_path, "durable") as running:
        running.ask("SET", "k", "v")
        before = running.pid
        running.restart()
        assert running.pid != before
        assert running.ask("GET", "k") == "v"


def test_a_server_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(DidNotStartError, match="no-such-option"),
        standalone(tmp_path, no_such_option=1),
    ):
        pass


@pytest.mark.slow
def test_cluster_serves_every_slot_from_every_node(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        for host, port in nodes:
            with redis.RedisCluster(host=host, port=port) as client:
                assert len(client.get_primaries()) == len(nodes) == 3
                for key in range(20):
                    client.set(str(key), "v")


@pytest.mark.slow
def test_replica_follows_and_sentinel_promotes_it(tmp_path: Path) -> None:
    with sentinel(tmp_path) as watched:
        with redis.Redis(port=watched.primary.port) as client:
            client.set("k", "v")
            assert client.wait(1, 5_000) == 1
        assert watched.replica.ask("GET", "k") == "v"
        assert watched.sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME", watched.name) == (
            HOST,
            watched.primary.port,
        )
        watched.primary.kill()
        wait_until(watched.replica.is_primary, 20, "failover")


def test_debian_redis_is_redis_or_nothing(tmp_path: Path) -> None:
    with debian_redis(tmp_path) as url:
        if url is None:
            pytest.skip("no redis-server on PATH")
        with redis.Redis.from_url(url, decode_responses=True) as client:
            assert int(client.info("server")["redis_version"].split(".")[0]) >= 6


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match="a miracle: not within"):
        wait_until(lambda: False, 0.01, "a miracle")
