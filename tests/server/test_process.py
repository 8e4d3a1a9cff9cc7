"""The server as a process: how it says that it is ready, how it stops, what it leaves behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
import redis
from grpc_health.v1 import health_pb2, health_pb2_grpc

import holdfast
from holdfast.v1 import broker_pb2 as pb
from tests.server.serving import SOURCE, Serving, serving, started
from tests.servers import standalone, standalone_server, wait_until


@pytest.fixture
def hf(valkey: str) -> Iterator[holdfast.Client]:
    with holdfast.connect(valkey, check="off") as client:
        yield client


def held_by_a_stream(
    server: Serving, queue: holdfast.Queue, count: int, *, lease: float = 300
) -> Any:
    """A stream that has handed out so many messages, which nobody settles."""
    queue.send_many([b"x"] * count)
    channel = server.channel()
    stub = channel.unary_stream(
        "/holdfast.v1.Queues/ReceiveStream",
        request_serializer=pb.ReceiveStreamRequest.SerializeToString,
        response_deserializer=pb.ReceiveResponse.FromString,
    )
    stream: Any = stub(pb.ReceiveStreamRequest(queues=[queue.name], lease_ms=int(lease * 1000)))
    got = 0
    while got < count:
        got += len(next(stream).deliveries)
    assert queue.stats().leased == count
    return channel, stream


# ---- ready --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_ready_line_has_the_real_ports_and_both_doors_answer(
    valkey: str, tmp_path: Path
) -> None:
    with serving(tmp_path, valkey) as server:
        assert server.ready["ready"] is True
        assert server.ready["pid"] == server.process.pid
        assert not server.ready["resp"].endswith(":0")
        with server.redis() as client, server.channel() as channel:
            assert client.ping()
            health = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.slow
def test_what_is_sent_through_one_door_is_received_through_the_other(
    valkey: str, tmp_path: Path, name: str
) -> None:
    with serving(tmp_path, valkey) as server, server.redis() as client, server.queues() as queues:
        [sent] = client.execute_command("MQ.PUSH", name, b"hello")
        [got] = queues.Receive(pb.ReceiveRequest(queues=[name], wait_ms=5000)).deliveries
        assert (got.id.encode(), got.body) == (sent, b"hello")


@pytest.mark.slow
def test_the_ready_line_is_for_people_too(valkey: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "serve", "--resp", "[::1]:0", "--url", valkey],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode().strip()
        assert line.startswith("holdfast is ready: resp [::1]:")
        with redis.Redis(host="::1", port=int(line.rpartition(":")[2])) as client:
            assert client.ping()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_only_the_doors_asked_for_are_opened(valkey: str, tmp_path: Path) -> None:
    with serving(tmp_path, valkey, "--grpc", "127.0.0.1:0") as server:
        assert "resp" not in server.ready


@pytest.mark.slow
def test_a_supervisor_that_asks_to_be_told_is_told(valkey: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with serving(tmp_path / "s", valkey, env=env) as server:
            assert heard.recv(100) == b"READY=1"
            assert server.stop()[0] == 0
            assert heard.recv(100) == b"STOPPING=1"


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_and_nothing_stays_open(valkey: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for door in ("--resp", "--grpc"):
            words = ("--url", valkey, "--check", "off", door, address)
            with started(tmp_path / door, *words) as server:
                assert server.ended(30) == 64
                assert f"cannot listen on {address}" in server.log
                assert server.out == ""


# ---- stop ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.slow
def test_an_idle_server_stops_at_once_with_status_0(
    valkey: str, tmp_path: Path, number: signal.Signals
) -> None:
    with serving(tmp_path, valkey) as server, server.redis() as client:
        assert client.ping()
        server.signal(number)
        assert server.ended(10) == 0
        [told] = server.said("told to stop")
        assert told["signal"] == number.name
        [stopped] = server.said("stopped")
        assert stopped["connections"] >= 1
        assert stopped["took_seconds"] < 5
        host, port = str(server.ready["resp"]).split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.slow
def test_clients_that_wait_for_messages_do_not_hold_up_a_stop(
    valkey: str, tmp_path: Path, name: str
) -> None:
    with (
        serving(tmp_path, valkey) as server,
        server.redis() as client,
        redis.Redis.from_url(valkey) as raw,
        server.queues() as queues,
        ThreadPoolExecutor(2) as pool,
    ):
        resp = pool.submit(client.execute_command, "MQ.POP", "BLOCK", "0", name)
        rpc = pool.submit(queues.Receive, pb.ReceiveRequest(queues=[name], wait_ms=600_000))
        wait_until(lambda: raw.info("clients")["blocked_clients"] >= 2, what="both wait")
        status, took = server.stop()
        assert status == 0
        assert took < 10
        assert resp.result(10) is None
        assert list(rpc.result(10).deliveries) == []


@pytest.mark.slow
def test_what_a_stream_holds_is_ready_again_when_the_server_has_stopped(
    valkey: str, tmp_path: Path, name: str, hf: holdfast.Client
) -> None:
    with serving(tmp_path, valkey, "--grace", "2") as server:
        channel, _ = held_by_a_stream(server, hf.queue(name), 5)
        with channel:
            status, took = server.stop()
        assert status == 0
        assert took < 4  # grace, and the end of a Python process on a busy machine
        assert hf.queue(name).stats().ready == 5


@pytest.mark.slow
def test_what_is_settled_during_a_stop_is_settled(
    valkey: str, tmp_path: Path, name: str, hf: holdfast.Client
) -> None:
    """A stop does not throw away the work of a consumer that is about to finish."""
    queue = hf.queue(name)
    with serving(tmp_path, valkey, "--grace", "20") as server, server.channel() as acks:
        channel, _ = held_by_a_stream(server, queue, 1)
        ack = acks.unary_unary(
            "/holdfast.v1.Queues/Ack",
            request_serializer=pb.AckRequest.SerializeToString,
            response_deserializer=pb.SettleResponse.FromString,
        )
        # This channel must be there before: a server that stops takes no new ones.
        ack(pb.AckRequest(queue=name, receipts=["1-1"]), timeout=10)
        [held] = queue.inspect("leased")
        server.signal(signal.SIGTERM)
        wait_until(lambda: server.said("stopping"), what="the stop")
        with channel:
            done = ack(pb.AckRequest(queue=name, receipts=[str(held.id)]), timeout=10)
            assert list(done.receipts) == [str(held.id)]
            assert server.ended(10) == 0
        stats = queue.stats()
        assert (stats.acked, stats.ready) == (1, 0)


@pytest.mark.slow
def test_a_second_signal_ends_at_once(
    valkey: str, tmp_path: Path, name: str, hf: holdfast.Client
) -> None:
    with serving(tmp_path, valkey, "--grace", "60") as server:
        channel, _ = held_by_a_stream(server, hf.queue(name), 1)
        with channel:
            server.signal(signal.SIGTERM)
            wait_until(lambda: server.said("stopping"), what="the stop")
            assert server.process.poll() is None
            server.signal(signal.SIGTERM)
            assert server.ended(5) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_after_kill_9_what_a_stream_held_comes_back_when_its_lease_ends(
    valkey: str, tmp_path: Path, name: str, hf: holdfast.Client
) -> None:
    queue = hf.queue(name)
    with serving(tmp_path, valkey) as server:
        channel, stream = held_by_a_stream(server, queue, 3, lease=2)
        with channel:
            server.signal(signal.SIGKILL)
            assert server.ended(5) == -signal.SIGKILL
            with pytest.raises(grpc.RpcError) as caught:
                next(stream)
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert len(queue.receive_many(3, wait=20)) + len(queue.receive_many(3, wait=1)) == 3


@pytest.mark.slow
def test_a_server_that_took_over_serves_what_the_killed_one_had_stored(
    valkey: str, tmp_path: Path, name: str
) -> None:
    with serving(tmp_path / "1", valkey) as first, first.redis() as client:
        sent = client.execute_command("MQ.PUSH", name, *(str(n) for n in range(100)))
        first.signal(signal.SIGKILL)
    with serving(tmp_path / "2", valkey) as second, second.redis() as client:
        got = client.execute_command("MQ.POP", "200", name)
        assert [message_id for message_id, _ in got] == sent


# ---- Valkey at start ----------------------------------------------------------------------


@pytest.mark.slow
def test_without_valkey_it_waits_as_long_as_told_and_fails(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody.sock"
    words = ("--url", url, "--resp", "127.0.0.1:0", "--wait-for-server", "1")
    began = time.monotonic()
    with started(tmp_path / "s", *words) as server:
        assert server.ended(30) == 75
        assert server.out == ""
        assert '"UNAVAILABLE"' in server.log.splitlines()[-1]
    assert time.monotonic() - began < 15


@pytest.mark.slow
def test_it_is_ready_when_valkey_comes_while_it_waits(tmp_path: Path) -> None:
    with standalone_server(tmp_path) as valkey:
        url = valkey.url
        valkey.stop()
        words = ("--url", url, "--resp", "127.0.0.1:0", "--wait-for-server", "60")
        with started(tmp_path / "s", *words) as server:
            wait_until(lambda: "event=starting" in server.log, what="the start")
            assert server.out == ""
            valkey.start()
            server.wait_ready()


@pytest.mark.slow
def test_it_can_be_stopped_while_it_waits_for_valkey(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody.sock"
    words = ("--url", url, "--resp", "127.0.0.1:0", "--wait-for-server", "600")
    with started(tmp_path / "s", *words) as server:
        wait_until(lambda: "event=starting" in server.log, 20, "the start")
        status, took = server.stop()
        assert status == 0
        assert took < 5


@pytest.mark.slow
def test_a_valkey_that_may_lose_messages_is_refused_if_asked(tmp_path: Path) -> None:
    with standalone(tmp_path, "fast", appendonly="no", save="") as url:
        words = ("--url", url, "--resp", "127.0.0.1:0", "--check")
        with started(tmp_path / "refuse", *words, "refuse") as server:
            assert server.ended(30) == 69
        with started(tmp_path / "warn", *words, "warn") as server:
            server.wait_ready()
            assert "level=warning event=warning" in server.log


# ---- tending ------------------------------------------------------------------------------


@pytest.mark.slow
def test_queues_that_nobody_receives_from_are_tended(
    valkey: str, tmp_path: Path, name: str, hf: holdfast.Client
) -> None:
    """A lease ends and the last permitted delivery with it: somebody must notice."""
    queue = hf.queue(name)
    queue.configure(lease=0.05, max_receives=1)
    queue.send(b"x")
    assert queue.receive() is not None

    with serving(tmp_path, valkey, "--reap-every", "0.1"):
        wait_until(lambda: queue.stats().dead == 1, what="the dead letter")


# ---- secrets ------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_secret_is_ever_said(tmp_path: Path) -> None:
    from holdfast.server import tokens

    password, wrong = "valkeyPassw0rd", "hf_" + "wr0ng" * 8
    token, secret = tokens.new("shop", ["send queue:orders"])
    tokens.write(tmp_path / "tokens.toml", [token])
    with standalone(tmp_path, "fast") as url:
        with redis.Redis.from_url(url) as raw:
            raw.config_set("requirepass", password)
        with_password = url.replace("unix://", f"unix://:{password}@")
        words = ("--token-file", str(tmp_path / "tokens.toml"), "--log-level", "debug")
        env = {"HOLDFAST_URL": with_password}
        with started(
            tmp_path / "s", *words, "--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0", env=env
        ) as server:
            server.wait_ready()
            for given in (wrong, secret):
                with (
                    server.redis(password=given) as client,
                    pytest.raises(redis.RedisError) as said,
                ):
                    client.execute_command("MQ.PUSH", "invoices", "x")
                assert given not in str(said.value)
                with server.queues() as queues, pytest.raises(grpc.RpcError) as caught:
                    queues.Send(
                        pb.SendRequest(queue="invoices", messages=[pb.OutgoingMessage(body=b"x")]),
                        metadata=(("authorization", f"Bearer {given}"),),
                    )
                assert given not in str(caught.value)
            assert server.stop()[0] == 0
            everything = server.log + server.out
    assert "turned away" in everything
    for hidden in (password, wrong, wrong[3:], secret, secret[3:]):
        assert hidden not in everything
