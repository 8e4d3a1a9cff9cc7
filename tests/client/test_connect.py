"""Where `connect` connects to, and what it says when it cannot."""

from __future__ import annotations

import os
import signal
import ssl
from pathlib import Path

import pytest
import redis
import trustme

import holdfast
from holdfast import InvalidArgument, NotReplicated, Refused, Unavailable, WrongType, embedded
from holdfast.client.address import parse
from tests.client.proxy import proxied
from tests.servers import cluster, primary_with_replica, sentinel, standalone_server, wait_until


def test_with_no_url_the_embedded_server_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    with holdfast.connect() as hf:
        hf.queue("q").send(b"x")
        assert redis.Redis.from_url(hf.url).exists("hf1:{q}") == 1
    with holdfast.connect() as hf:
        d = hf.queue("q").receive()
        assert d is not None
        assert d.body == b"x"


def test_the_embedded_server_is_started_again_when_it_was_killed(tmp_path: Path) -> None:
    with holdfast.connect(home=tmp_path / "home") as hf:
        q = hf.queue("q")
        q.send(b"before")
        running = embedded.status(tmp_path / "home")
        assert running.pid is not None
        os.kill(running.pid, signal.SIGKILL)
        q.send(b"after")
        assert [d.body for d in q.receive_many(2)] == [b"before", b"after"]


def test_the_environment_names_the_server(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", url)
    with holdfast.connect() as hf:
        hf.ping()
        assert hf.url.startswith(url)


def test_the_url_works_with_redis_py(url: str) -> None:
    with holdfast.connect(url) as hf:
        assert redis.Redis.from_url(hf.url).ping()


@pytest.mark.parametrize(
    ("text", "topology", "hosts", "db", "tls"),
    [
        ("redis://h", "standalone", (("h", 6379),), 0, False),
        ("valkey://h:7000/3", "standalone", (("h", 7000),), 3, False),
        ("rediss://h", "standalone", (("h", 6379),), 0, True),
        ("redis://[::1]:7000", "standalone", (("::1", 7000),), 0, False),
        ("redis://a:1,b:2,c", "cluster", (("a", 1), ("b", 2), ("c", 6379)), 0, False),
        ("redis://a?cluster=true", "cluster", (("a", 6379),), 0, False),
        ("redis+sentinel://a:1,b/mymaster/2", "sentinel", (("a", 1), ("b", 26379)), 2, False),
    ],
)
def test_urls_are_understood(
    text: str, topology: str, hosts: tuple[tuple[str, int], ...], db: int, tls: bool
) -> None:
    address = parse(text)
    assert (address.topology, address.hosts, address.db, address.tls) == (topology, hosts, db, tls)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "localhost:6379",
            "a server's URL must have a scheme; for example redis://localhost:6379/0",
        ),
        ("http://h", "Holdfast cannot speak http://"),
        ("redis://h:port", "'h:port' is no host and port"),
        ("redis://h/x", "the database in the URL must be a number, not 'x'"),
        ("redis://h?colour=red", "the URL has unknown options: colour"),
        ("redis://h?cluster=maybe", "cluster in the URL must be true or false, not 'maybe'"),
        ("redis://a,b/1", "a cluster has database 0 only"),
        ("redis+sentinel://a", "a sentinel URL must name the master"),
    ],
)
def test_urls_that_cannot_be_are_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 0}, "timeout must be from 0.001"),
        ({"retry_for": -1}, "retry_for must be from 0"),
        ({"replicas": -1}, "replicas must be from 0 to 100, not -1"),
        ({"check": "maybe"}, "check must be 'warn', 'refuse' or 'off', not 'maybe'"),
        ({"home": "x"}, "home and durability are for the embedded server, not for a URL"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        holdfast.connect("redis://127.0.0.1:1", **options)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_a_password_never_shows() -> None:
    address = parse("redis://me:sesame@h:7000/1")
    assert (address.username, address.password) == ("me", "sesame")
    assert "sesame" not in repr(address) + address.safe
    with pytest.raises(InvalidArgument) as caught:
        parse("redis://me:sesame@h/x")
    assert "sesame" not in str(caught.value)


def test_a_wrong_password_is_refused_at_once(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as server:
        server.ask("CONFIG", "SET", "requirepass", "sesame")
        for auth, refused in (("", True), (":wrong@", True), (":sesame@", False)):
            with holdfast.connect(server.url.replace("://", f"://{auth}", 1)) as hf:
                if refused:
                    with pytest.raises(Refused):
                        hf.queue("q").send(b"x")
                else:
                    hf.queue("q").send(b"x")


def test_a_key_of_somebody_else_is_left_alone(url: str) -> None:
    with holdfast.connect(url) as hf:
        redis.Redis.from_url(url).set("hf1:{theirs}", "precious")
        with pytest.raises(WrongType):
            hf.queue("theirs").send(b"x")
        assert redis.Redis.from_url(url).get("hf1:{theirs}") == b"precious"


@pytest.mark.parametrize("said", ["?cluster=true", ""])
@pytest.mark.slow
def test_a_cluster_is_found_from_one_of_its_nodes(tmp_path: Path, said: str) -> None:
    """Also if the URL does not say that it is one."""
    with cluster(tmp_path) as nodes:
        host, port = nodes[0]
        with holdfast.connect(f"redis://{host}:{port}{said}", check="off") as hf:
            for i in range(30):
                hf.queue(f"q{i}").send(b"%d" % i)
            bodies = [d.body for i in range(30) if (d := hf.queue(f"q{i}").receive())]
            assert bodies == [b"%d" % i for i in range(30)]
            assert len(hf.examine()) == 3
            assert len(hf.queues()) == 30


@pytest.mark.slow
def test_a_slot_that_moves_is_followed(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        several = ",".join(f"{host}:{port}" for host, port in nodes)
        with holdfast.connect(f"redis://{several}", check="off") as hf:
            q = hf.queue("wanderer")
            q.send(b"before")
            _move_slot(nodes, "hf1:{wanderer}")
            q.send(b"after")
            assert [d.body for d in q.receive_many(2)] == [b"before", b"after"]


def _move_slot(nodes: list[tuple[str, int]], key: str) -> None:
    """As an operator would: mark, copy the keys, hand over, tell everybody."""
    clients = [redis.Redis(host=host, port=port) for host, port in nodes]
    slot = int(clients[0].execute_command("CLUSTER", "KEYSLOT", key))
    ids = [c.execute_command("CLUSTER", "MYID").decode() for c in clients]
    source = next(
        i for i, c in enumerate(clients) if c.execute_command("CLUSTER", "COUNTKEYSINSLOT", slot)
    )
    target = (source + 1) % len(nodes)
    clients[target].execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    clients[source].execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    keys = clients[source].execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
    host, port = nodes[target]
    clients[source].execute_command("MIGRATE", host, port, "", 0, 5000, "KEYS", *keys)
    for c in [clients[target], clients[source], *clients]:
        c.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    for c in clients:
        c.close()


@pytest.mark.slow
def test_sentinels_tell_where_the_master_is_also_after_a_failover(tmp_path: Path) -> None:
    with sentinel(tmp_path) as watched:
        host, port = watched.address
        with holdfast.connect(f"redis+sentinel://{host}:{port}/mymaster", check="off") as hf:
            q = hf.queue("q")
            q.send(b"before")
            wait_until(lambda: watched.replica.info("replication")["master_link_status"] == "up")
            wait_until(lambda: watched.replica.ask("EXISTS", "hf1:{q}") == 1)
            watched.primary.kill()
            q.send(b"after")
            assert [d.body for d in q.receive_many(2)] == [b"before", b"after"]
        with (
            holdfast.connect(f"redis+sentinel://{host}:{port}/other", retry_for=0.2) as hf,
            pytest.raises(Unavailable, match="no sentinel tells where 'other' is"),
        ):
            hf.queue("q").send(b"x")


@pytest.mark.slow
def test_writes_wait_for_replicas_and_say_when_too_few_confirm(tmp_path: Path) -> None:
    with primary_with_replica(tmp_path) as both:
        with holdfast.connect(both.primary.url, replicas=1, check="off") as hf:
            mid = hf.queue("q").send(b"x")
            assert both.replica.ask("LLEN", "hf1:{q}:r0") == 1
            assert mid
        with holdfast.connect(both.primary.url, replicas=2, timeout=0.3, check="off") as hf:
            with pytest.raises(NotReplicated) as caught:
                hf.queue("q").send(b"y")
            assert "is done, but 1 of 2 replicas confirmed it in 0.24 s" in str(caught.value)


@pytest.mark.slow
def test_tls_is_spoken_and_certificates_are_checked(url: str, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with proxied(url, context) as proxy:
        where = proxy.url.replace("redis://", "rediss://")
        with holdfast.connect(f"{where}?ca={trusted}") as hf:
            hf.queue("tls").send(b"x")
        with holdfast.connect(f"{where}?verify=no") as hf:
            assert hf.queue("tls").receive() is not None
        with (
            holdfast.connect(where, retry_for=0.2) as hf,
            pytest.raises(Unavailable, match="certificate"),
        ):
            hf.queue("tls").send(b"x")


def test_a_forked_child_uses_connections_of_its_own(url: str) -> None:
    with holdfast.connect(url) as hf:
        q = hf.queue("forked")
        q.send(b"parent")
        child = os.fork()
        if child == 0:
            try:
                q.send(b"child")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert sorted(d.body for d in q.receive_many(2)) == [b"child", b"parent"]
