"""Through each door: each verb × no token, a wrong one, a right to all but it, a right elsewhere,
the right; and TLS with the wrong CA, an expired certificate, or none."""

from __future__ import annotations

import dataclasses
import signal
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import redis

import holdfast
from holdfast.server import tokens
from holdfast.server.access import GROUPS, QUEUE_VERBS, TOPIC_VERBS
from holdfast.server.tokens import Token
from holdfast.v1 import broker_pb2 as pb
from holdfast.v1 import broker_pb2_grpc
from tests.server.certificates import Authority, Pair
from tests.server.serving import Serving, serving
from tests.servers import wait_until

NAME, ID = "shop.orders", "1-1"
SEAT = pb.Seat(topic=NAME, consumer="c")
MESSAGE = pb.OutgoingMessage(body=b"x")
SETTINGS = pb.QueueSettings(lease_ms=5000)


class Asked(NamedTuple):
    """One thing that can be asked through a door, and what permits it."""

    kind: str
    verb: str
    what: Any
    request: Any = None

    @property
    def id(self) -> str:
        what = self.what if isinstance(self.what, str) else self.what[0]
        return f"{self.kind}-{self.verb}-{what}"


RESP = [
    Asked("queue", "send", ("MQ.PUSH", NAME, "x")),
    Asked("queue", "send", ("MQ.SEND", NAME, "x")),
    Asked("queue", "send", ("MQ.SEND", NAME, "UNIQUE", "u", "x")),
    Asked("queue", "receive", ("MQ.POP", "1", NAME)),
    Asked("queue", "receive", ("MQ.POP", "COUNT", "1", NAME)),
    Asked("queue", "receive", ("MQ.RECEIVE", NAME)),
    Asked("queue", "receive", ("MQ.RECEIVE", "DEAD", NAME)),
    Asked("queue", "recover", ("MQ.RECOVER", NAME, "1", "1000")),
    Asked("queue", "ack", ("MQ.ACK", NAME, ID)),
    Asked("queue", "nack", ("MQ.NACK", NAME, ID)),
    Asked("queue", "extend", ("MQ.EXTEND", NAME, "1000", ID)),
    Asked("queue", "inspect", ("MQ.INSPECT", NAME, "0", "1")),
    Asked("queue", "inspect", ("MQ.INSPECT", NAME, "PENDING", "0", "1")),
    Asked("queue", "inspect", ("MQ.DEAD", NAME, "0", "1")),
    Asked("queue", "inspect", ("MQ.GET", NAME, ID)),
    Asked("queue", "stats", ("MQ.STATS", NAME)),
    Asked("queue", "stats", ("MQ.QINFO", NAME)),
    Asked("queue", "redrive", ("MQ.REDRIVE", NAME)),
    Asked("queue", "remove", ("MQ.REMOVE", NAME, ID)),
    Asked("queue", "reschedule", ("MQ.RESCHEDULE", NAME, ID, "DELAY", "1000")),
    Asked("queue", "purge", ("MQ.PURGE", NAME, "dead")),
    Asked("queue", "pause", ("MQ.PAUSE", NAME, "1")),
    Asked("queue", "pause", ("MQ.RESUME", NAME)),
    Asked("queue", "configure", ("MQ.CONFIGURE", NAME, "lease_ms", "5000")),
    Asked("queue", "delete", ("MQ.DELETE", NAME)),
    Asked("topic", "publish", ("MQ.PUBLISH", NAME, "x")),
    Asked("topic", "publish", ("MQ.MPUBLISH", NAME, "x")),
    Asked("topic", "subscribe", ("MQ.SUBSCRIBE", NAME, "c")),
    Asked("topic", "unsubscribe", ("MQ.UNSUBSCRIBE", NAME, "c")),
    Asked("topic", "observe", ("MQ.OBSERVE", "c", "TOPICS", NAME)),
    Asked("topic", "ack", ("MQ.ACK", NAME, "FOR", "c", ID)),
    Asked("topic", "nack", ("MQ.NACK", NAME, "FOR", "c", ID)),
    Asked("topic", "extend", ("MQ.EXTEND", NAME, "FOR", "c", "1000", ID)),
    Asked("topic", "inspect", ("MQ.INSPECT", NAME, "FOR", "c", "0", "1")),
    Asked("topic", "inspect", ("MQ.DEAD", NAME, "FOR", "c", "0", "1")),
    Asked("topic", "stats", ("MQ.STATS", NAME, "FOR", "c")),
    Asked("topic", "stats", ("MQ.SUBSCRIPTIONS", NAME)),
    Asked("topic", "stats", ("MQ.TOPIC", "STATS", NAME)),
    Asked("topic", "redrive", ("MQ.REDRIVE", NAME, "FOR", "c")),
    Asked("topic", "configure", ("MQ.TOPIC", "CONFIGURE", NAME, "lease_ms", "5000")),
    Asked("topic", "delete", ("MQ.TOPIC", "DELETE", NAME)),
]
GRPC = [
    Asked("queue", "send", "Send", pb.SendRequest(queue=NAME, messages=[MESSAGE])),
    Asked("queue", "send", "SendStream", pb.SendRequest(queue=NAME, messages=[MESSAGE])),
    Asked("queue", "send", "Ensure", pb.EnsureRequest(queue=NAME, unique="u", message=MESSAGE)),
    Asked("queue", "receive", "Receive", pb.ReceiveRequest(queues=[NAME])),
    Asked("queue", "receive", "ReceiveStream", pb.ReceiveStreamRequest(queues=[NAME])),
    Asked("queue", "receive", "ReceiveDead", pb.ReceiveRequest(queues=[NAME])),
    Asked("queue", "recover", "Recover", pb.RecoverRequest(queue=NAME, elapsed_ms=1000)),
    Asked("queue", "ack", "Ack", pb.AckRequest(queue=NAME, receipts=[ID])),
    Asked("queue", "nack", "Nack", pb.NackRequest(queue=NAME, receipts=[ID])),
    Asked("queue", "extend", "Extend", pb.ExtendRequest(queue=NAME, receipts=[ID], lease_ms=1000)),
    Asked("queue", "inspect", "Inspect", pb.InspectRequest(queue=NAME, state=pb.STATE_READY)),
    Asked("queue", "inspect", "Get", pb.GetRequest(queue=NAME, id=ID)),
    Asked("queue", "stats", "Stats", pb.StatsRequest(queue=NAME)),
    Asked("queue", "stats", "Settings", pb.SettingsRequest(queue=NAME)),
    Asked("queue", "redrive", "Redrive", pb.RedriveRequest(queue=NAME)),
    Asked("queue", "remove", "Remove", pb.RemoveRequest(queue=NAME, id=ID)),
    Asked("queue", "reschedule", "Reschedule", pb.RescheduleRequest(queue=NAME, id=ID, delay_ms=1)),
    Asked("queue", "purge", "Purge", pb.PurgeRequest(queue=NAME, states=[pb.STATE_DEAD])),
    Asked("queue", "pause", "Pause", pb.PauseRequest(queue=NAME)),
    Asked("queue", "pause", "Resume", pb.ResumeRequest(queue=NAME)),
    Asked("queue", "configure", "Configure", pb.ConfigureRequest(queue=NAME, changes=SETTINGS)),
    Asked("queue", "delete", "Delete", pb.DeleteRequest(queue=NAME)),
    Asked("topic", "publish", "Publish", pb.PublishRequest(topic=NAME, payload=b"x")),
    Asked("topic", "subscribe", "Subscribe", pb.SubscribeRequest(topic=NAME, consumer="c")),
    Asked("topic", "unsubscribe", "Unsubscribe", pb.UnsubscribeRequest(topic=NAME, consumer="c")),
    Asked("topic", "observe", "Observe", pb.ObserveRequest(consumer="c", topics=[NAME])),
    Asked(
        "topic", "observe", "ObserveStream", pb.ObserveStreamRequest(consumer="c", topics=[NAME])
    ),
    Asked("topic", "observe", "Touch", pb.TouchRequest(seat=SEAT)),
    Asked("topic", "observe", "ReceiveDead", pb.ReceiveDeadRequest(seat=SEAT)),
    Asked("topic", "ack", "Ack", pb.AckRequest(seat=SEAT, receipts=[ID])),
    Asked("topic", "nack", "Nack", pb.NackRequest(seat=SEAT, receipts=[ID])),
    Asked("topic", "extend", "Extend", pb.ExtendRequest(seat=SEAT, receipts=[ID], lease_ms=1000)),
    Asked("topic", "inspect", "Inspect", pb.InspectRequest(seat=SEAT, state=pb.STATE_READY)),
    Asked("topic", "inspect", "Get", pb.GetRequest(seat=SEAT, id=ID)),
    Asked("topic", "stats", "Stats", pb.StatsRequest(seat=SEAT)),
    Asked("topic", "stats", "Settings", pb.SettingsRequest(seat=SEAT)),
    Asked("topic", "stats", "TopicStats", pb.TopicRequest(topic=NAME)),
    Asked("topic", "stats", "TopicSettings", pb.TopicRequest(topic=NAME)),
    Asked("topic", "stats", "Subscriptions", pb.SubscriptionsRequest(topic=NAME)),
    Asked("topic", "redrive", "Redrive", pb.RedriveRequest(seat=SEAT)),
    Asked(
        "topic",
        "configure",
        "ConfigureTopic",
        pb.ConfigureTopicRequest(topic=NAME, changes=SETTINGS),
    ),
    Asked("topic", "delete", "DeleteTopic", pb.TopicRequest(topic=NAME)),
]
# What they show is only what one has rights to, so that a token alone is needed.
LISTS = {"ListQueues", "ListTopics", "ConsumerTopics"}


class Guarded(NamedTuple):
    server: Serving
    secrets: dict[str, str]

    def given(self, how: str, asked: Asked) -> str | None:
        """The secret shown: none, wrong, or that of a token."""
        if how == "none":
            return None
        if how in ("wrong", "elsewhere"):
            return self.secrets.get(how, "hf_wrong")
        return self.secrets[f"{how}-{asked.kind}-{asked.verb}"]


@pytest.fixture(scope="module")
def guarded(valkey: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with a token for each right, one for all but it, and one for everything elsewhere."""
    allow = {"elsewhere": "all *:ship.*"}
    for kind, verbs in (("queue", QUEUE_VERBS), ("topic", TOPIC_VERBS)):
        for verb in verbs:
            allow[f"right-{kind}-{verb}"] = f"{verb} {kind}:shop.*"
            others = ",".join(sorted(GROUPS["all"] - {verb}))
            allow[f"lacking-{kind}-{verb}"] = f"{others} {kind}:shop.*"
    made = {name: tokens.new(name, [text]) for name, text in allow.items()}
    folder = tmp_path_factory.mktemp("guarded")
    tokens.write(folder / "tokens.toml", [token for token, _ in made.values()])
    words = ("--token-file", str(folder / "tokens.toml"))
    with serving(folder, valkey, *words) as server:
        yield Guarded(server, {name: secret for name, (_, secret) in made.items()})


HOW = ["none", "wrong", "elsewhere", "lacking", "right"]


def test_the_tables_have_every_verb_and_every_command_and_method() -> None:
    from holdfast.server.resp.table import TABLE

    for table in (RESP, GRPC):
        for kind, verbs in (("queue", QUEUE_VERBS), ("topic", TOPIC_VERBS)):
            assert {a.verb for a in table if a.kind == kind} == set(verbs)
    commands = {c.name.upper() for c in TABLE.values() if c.name.startswith("mq.")}
    assert commands - {a.what[0] for a in RESP} == {"MQ.QUEUES", "MQ.TOPICS", "MQ.HELP"}
    services = pb.DESCRIPTOR.services_by_name
    for kind, service in (("queue", "Queues"), ("topic", "Broker")):
        methods = {m.name for m in services[service].methods}
        methods -= {"Configure"} if kind == "topic" else set()  # of one seat, as of the topic
        assert methods - {a.what for a in GRPC if a.kind == kind} <= LISTS


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("asked", RESP, ids=lambda a: a.id)
@pytest.mark.slow
def test_resp(guarded: Guarded, asked: Asked, how: str) -> None:
    secret = guarded.given(how, asked)
    # RESP2, since redis-py begins RESP3 with a HELLO, which would be refused in the command's place.
    with guarded.server.redis(password=secret, protocol=2) as client:
        try:
            client.execute_command(*asked.what)
            said = ""
        except redis.RedisError as error:
            said = f"{type(error).__name__} {error}"
    expected = {
        "none": "AuthenticationError Authentication required",
        "wrong": "AuthenticationError ",
        "elsewhere": f"may not {asked.verb} on {asked.kind} '{NAME}'",
        "lacking": f"may not {asked.verb} on {asked.kind} '{NAME}'",
    }
    if how == "right":
        assert "may not" not in said
        assert "Auth" not in said
    else:
        assert expected[how] in said


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("asked", GRPC, ids=lambda a: a.id)
def test_grpc(guarded: Guarded, asked: Asked, how: str) -> None:
    secret = guarded.given(how, asked)
    metadata = (("authorization", f"Bearer {secret}"),) if secret is not None else ()
    with guarded.server.channel() as channel:
        code = _status(_method(channel, asked), asked, metadata)
    expected = {
        "none": grpc.StatusCode.UNAUTHENTICATED,
        "wrong": grpc.StatusCode.UNAUTHENTICATED,
        "elsewhere": grpc.StatusCode.PERMISSION_DENIED,
        "lacking": grpc.StatusCode.PERMISSION_DENIED,
    }
    if how == "right":
        # Not there, or still open when our time was over: either way it was let in.
        assert code in (
            grpc.StatusCode.OK,
            grpc.StatusCode.NOT_FOUND,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        )
    else:
        assert code == expected[how]


def _method(channel: grpc.Channel, asked: Asked) -> Callable[..., Any]:
    queues, topics = broker_pb2_grpc.QueuesStub(channel), broker_pb2_grpc.BrokerStub(channel)
    found: Callable[..., Any] = getattr(queues if asked.kind == "queue" else topics, asked.what)
    return found


def _status(
    method: Callable[..., Any], asked: Asked, metadata: tuple[tuple[str, str], ...]
) -> grpc.StatusCode:
    streams = asked.what.endswith("Stream")
    request = iter([asked.request]) if asked.what == "SendStream" else asked.request
    try:
        # A stream that was let in goes on for ever, unlike one that was not.
        answer = method(request, metadata=metadata, timeout=1 if streams else 20)
        if streams:
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


# ---- tokens while it runs -----------------------------------------------------------------


@pytest.mark.slow
def test_sighup_lets_new_tokens_in_and_revoked_ones_out(valkey: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    old, old_secret = tokens.new("old", ["all *:*"])
    new, new_secret = tokens.new("new", ["all *:*"])
    tokens.write(file, [old])

    def enters(server: Serving, secret: str) -> bool:
        with server.redis(password=secret) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return False

    with serving(tmp_path / "s", valkey, "--token-file", str(file)) as server:
        assert [enters(server, s) for s in (old_secret, new_secret)] == [True, False]
        tokens.write(file, [new])
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(server.said("tokens read")) == 2, what="the tokens read again")
        assert [enters(server, s) for s in (old_secret, new_secret)] == [False, True]
        file.write_text("not a token file")
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.said("tokens not read; the old ones stay"), what="the complaint")
        assert [enters(server, s) for s in (old_secret, new_secret)] == [False, True]
        tokens.write(file, [])
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(server.said("tokens read")) == 3, what="the tokens read again")
        assert [enters(server, s) for s in (old_secret, new_secret)] == [False, False]


@pytest.mark.slow
def test_who_is_inside_when_the_token_is_revoked_is_out_at_once(
    valkey: str, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "tokens.toml"
    token, secret = tokens.new("t", ["all *:*"])
    tokens.write(file, [token])
    with (
        serving(tmp_path / "s", valkey, "--token-file", str(file)) as server,
        server.redis(password=secret) as client,
        server.queues() as queues,
    ):
        client.execute_command("MQ.PUSH", name, "a", "b")
        bearer = (("authorization", f"Bearer {secret}"),)
        request = pb.ReceiveStreamRequest(queues=[name])
        stream = queues.ReceiveStream(request, metadata=bearer)
        assert len(next(iter(stream)).deliveries) == 2
        fewer = dataclasses.replace(token, allow=("send queue:*",))
        tokens.write(file, [fewer])
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(server.said("tokens read")) == 2, what="the tokens read again")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command("MQ.POP", "1", name)
        with pytest.raises(grpc.RpcError) as refused:
            next(iter(stream))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        tokens.write(file, [tokens.new("t", ["all *:*"])[0]])  # the same name, another secret
        server.signal(signal.SIGHUP)
        wait_until(lambda: len(server.said("tokens read")) == 3, what="the tokens read again")
        with pytest.raises(redis.AuthenticationError):
            client.execute_command("MQ.PUSH", name, "c")
    with holdfast.connect(valkey, check="off") as hf:
        assert hf.queue(name).stats().ready == 2


@pytest.mark.slow
def test_a_token_file_that_everybody_can_read_is_warned_of(valkey: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    tokens.write(file, [tokens.new("t", ["all *:*"])[0]])
    file.chmod(0o644)
    with serving(tmp_path / "s", valkey, "--token-file", str(file)) as server:
        [warning] = server.said("token file")
        assert "everybody may read" in warning["problem"]


# ---- TLS ----------------------------------------------------------------------------------


class Secured(NamedTuple):
    """Servers on both doors with TLS: plain, with an expired certificate, and with mTLS."""

    servers: dict[str, Serving]
    ours: Authority
    theirs: Authority
    secret: str


@pytest.fixture(scope="module")
def secured(valkey: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
    token, secret = tokens.new("shop", ["send queue:shop.*"])
    named = Token("named", ("stats queue:shop.*",), certificate="named.example")
    tokens.write(folder / "tokens.toml", [token, named])

    def words(pair: Pair) -> tuple[str, ...]:
        return ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))

    good, mtls = ours.issue(), ("--tls-client-ca", str(ours.file))
    with (
        serving(folder / "1", valkey, *words(good)) as plain,
        serving(folder / "2", valkey, *words(ours.issue(expired=True))) as expired,
        serving(folder / "3", valkey, *words(good), *mtls) as strict,
        serving(
            folder / "4", valkey, *words(good), *mtls, "--token-file", str(folder / "tokens.toml")
        ) as both,
    ):
        servers = {"plain": plain, "expired": expired, "mtls": strict, "mtls-tokens": both}
        yield Secured(servers, ours, theirs, secret)


def _over_resp(
    server: Serving, ca: Path | None, pair: Pair | None, secret: str | None, verb: str
) -> str:
    options: dict[str, Any] = {"password": secret}
    if ca is not None:
        options |= {"ssl": True, "ssl_ca_certs": str(ca), "ssl_check_hostname": True}
    if pair is not None:
        options |= {"ssl_certfile": str(pair.cert), "ssl_keyfile": str(pair.key)}
    words = ("MQ.STATS", NAME) if verb == "stats" else ("MQ.PUSH", NAME, "x")
    with server.redis(**options) as client:
        try:
            client.execute_command(*words)
        except redis.AuthenticationError:
            return "unauthenticated"
        except redis.ResponseError as error:
            return "refused" if "may not" in str(error) else str(error)
        except (redis.ConnectionError, redis.TimeoutError, ssl.SSLError):
            return "no connection"
    return "served"


def _over_grpc(
    server: Serving, ca: Path | None, pair: Pair | None, secret: str | None, verb: str
) -> str:
    if ca is None:
        channel = server.channel()
    else:
        credentials = grpc.ssl_channel_credentials(
            ca.read_bytes(),
            pair.key.read_bytes() if pair else None,
            pair.cert.read_bytes() if pair else None,
        )
        channel = grpc.secure_channel(server.ready["grpc"], credentials)
    metadata = (("authorization", f"Bearer {secret}"),) if secret else ()
    with channel:
        queues = broker_pb2_grpc.QueuesStub(channel)
        try:
            if verb == "stats":
                queues.Stats(pb.StatsRequest(queue=NAME), metadata=metadata, timeout=20)
            else:
                request = pb.SendRequest(queue=NAME, messages=[MESSAGE])
                queues.Send(request, metadata=metadata, timeout=20)
        except grpc.RpcError as error:
            return {
                grpc.StatusCode.UNAUTHENTICATED: "unauthenticated",
                grpc.StatusCode.PERMISSION_DENIED: "refused",
                grpc.StatusCode.UNAVAILABLE: "no connection",
            }[error.code()]
    return "served"


# server, the CA that the client trusts, what it shows, its token, what it asks for, the outcome
TLS = [
    ("plain", "ours", None, False, "send", "served"),
    ("plain", "theirs", None, False, "send", "no connection"),
    ("plain", None, None, False, "send", "no connection"),
    ("expired", "ours", None, False, "send", "no connection"),
    ("mtls", "ours", "ours", False, "send", "served"),
    ("mtls", "ours", None, False, "send", "no connection"),
    ("mtls", "ours", "theirs", False, "send", "no connection"),
    ("mtls", "ours", "expired", False, "send", "no connection"),
    ("mtls-tokens", "ours", "ours", False, "send", "unauthenticated"),
    ("mtls-tokens", "ours", "ours", True, "send", "served"),
    ("mtls-tokens", "ours", "ours", True, "stats", "refused"),
    ("mtls-tokens", "ours", None, True, "send", "no connection"),
    ("mtls-tokens", "ours", "named", False, "stats", "served"),
    ("mtls-tokens", "ours", "named", False, "send", "refused"),
    ("mtls-tokens", "ours", "named", True, "send", "served"),
]


@pytest.mark.parametrize("ask", [_over_resp, _over_grpc], ids=["resp", "grpc"])
@pytest.mark.parametrize(
    ("server", "trusted", "shown", "token", "verb", "outcome"),
    TLS,
    ids=["-".join(str(word) for word in row) for row in TLS],
)
@pytest.mark.slow
def test_tls(
    secured: Secured,
    ask: Callable[..., str],
    server: str,
    trusted: str | None,
    shown: str | None,
    token: bool,
    verb: str,
    outcome: str,
) -> None:
    ca = {"ours": secured.ours.file, "theirs": secured.theirs.file, None: None}[trusted]
    pairs: dict[str | None, Callable[[], Pair | None]] = {
        None: lambda: None,
        "ours": lambda: secured.ours.issue("someone", name="someone"),
        "named": lambda: secured.ours.issue("named.example", name="named.example"),
        "theirs": lambda: secured.theirs.issue("named.example", name="named.example"),
        "expired": lambda: secured.ours.issue("someone", name="someone", expired=True),
    }
    secret = secured.secret if token else None
    assert ask(secured.servers[server], ca, pairs[shown](), secret, verb) == outcome
