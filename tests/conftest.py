"""Where tests run: real servers, started once per test process and only when a test asks for one.

A test that takes `q` runs in the usual settings: one server, one where every batch is packed, Debian's
Redis, and a cluster, with shards where the test allows them. To run in others, say so and why:

    @pytest.mark.unsharded("exact order over all messages is a promise of one shard")
    @pytest.mark.only("standalone", reason="arithmetic on one server's INFO")

`--settings all` adds shards on one server and a cluster without them, `--settings one` is one server;
`--quick` is that, without what is slow or starts Spark. Long tests are given out first.

A topic has no shards: a test that takes `topic` runs where queues have one. The clock of a queue, or
of a topic with its subscriptions, stands still until the test moves it: `clock.advance(seconds)`.
"""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

import holdfast
from holdfast.engine import library
from tests import java, servers
from tests.clock import Clock
from tests.raw import Raw

# Until all tests are collected (pytest_collection_finish): nearly everything that is made by then stays.
gc.disable()
# Tests start servers by fork while gRPC's threads run in this process; gRPC's own handlers of a fork
# then abort the child now and then.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# A shell starts what runs in the background without Ctrl-C, and its children would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Every Java that a test starts, also through a command or a page of the docs.
os.environ |= java.VARIABLES

settings.register_profile(
    "holdfast",
    derandomize=True,  # the same examples on every run
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("holdfast")


@dataclass(frozen=True)
class Setting:
    """A kind of server, and how many shards a test's queue has there."""

    name: str
    kind: str
    shards: int = 1


SETTINGS = {
    s.name: s
    for s in (
        Setting("standalone", "standalone"),
        Setting("standalone-shards", "standalone", 3),
        Setting("cluster", "cluster"),
        Setting("cluster-shards", "cluster", 3),
        Setting("redis7", "redis"),
        Setting("packed", "packed"),
    )
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast's own tests")
    group.addoption("--settings", choices=("one", "usual", "all"), help="servers to run on")
    group.addoption(
        "--quick", action="store_true", help="one server, and nothing slow: for the inner loop"
    )
    group.addoption(
        "--torture", action="store_true", help="also the campaigns that `make torture` is made of"
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "unsharded(reason): run on queues of one shard only",
        "only(*settings, reason): run in these settings only",
        "packed: slow, and run on the library that packs every batch all the same",
        "spark: starts Spark, or needs one that runs (told from the fixture `spark` too)",
        "torture: a long campaign, not part of `make test`",
    ):
        config.addinivalue_line("markers", line)


def _usual(possible: list[Setting]) -> list[Setting]:
    """Of the two settings with shards and the two on a cluster, the one that is both, if it may be: it takes
    all the ways that the others take."""
    names = {s.name for s in possible}
    spare = {"cluster", "standalone-shards"} if "cluster-shards" in names else set()
    return [s for s in possible if s.name not in spare]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    unwanted = set() if config.getoption("torture") else {"torture"}
    if config.getoption("quick"):
        unwanted |= {"slow", "spark"}
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (left if unwanted & {mark.name for mark in item.iter_markers()} else chosen).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = _dealt(chosen, getattr(config, "workerinput", {}).get("workercount", 1))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _dealt(items: list[pytest.Item], hands: int) -> list[pytest.Item]:
    """One test process begins with all tests that share its Spark, since another one would have to start it
    too; the others with what else takes long, so that none is left alone with it at the end. xdist cuts the
    list into a piece for each process; who is done early takes from the others."""
    shares: list[pytest.Item] = []
    slow: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            shares.append(item)
        else:
            (slow if any(item.iter_markers("slow")) else rest).append(item)
    dealt: list[pytest.Item] = []
    for hand in range(hands):
        mine = slow[hand - 1 :: hands - 1] if hand else shares if hands > 1 else shares + slow
        short = max((hand + 1) * len(items) // hands - len(dealt) - len(mine), 0)
        dealt += mine + rest[:short]
        rest = rest[short:]
    return dealt + rest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "setting" not in metafunc.fixturenames:
        return
    chosen, limited = list(SETTINGS.values()), False
    for mark in metafunc.definition.iter_markers("only"):
        chosen, limited = [s for s in chosen if s.name in mark.args], True
    topics_only = "topic" in metafunc.fixturenames and "q" not in metafunc.fixturenames
    if topics_only or any(metafunc.definition.iter_markers("unsharded")):
        chosen = [s for s in chosen if s.shards == 1]
    asked = metafunc.config.getoption("settings")
    if metafunc.config.getoption("quick") or asked == "one":
        chosen = chosen[:1]
    elif asked != "all":
        chosen = chosen if limited else _usual(chosen)
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        if "slow" in marks and "packed" not in marks:
            chosen = [s for s in chosen if s.name != "packed"]
    metafunc.parametrize(
        "setting", chosen, ids=[s.name for s in chosen], indirect=True, scope="session"
    )


class Servers:
    """One server or cluster of each kind, and one client for each, until the tests end."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._urls: dict[str, str | None] = {}
        self._clients: dict[str, holdfast.Client] = {}

    def url(self, kind: str) -> str | None:
        """None where this machine has no such server."""
        if kind not in self._urls:
            folder = self._folder(kind)
            if kind == "cluster":
                nodes = self._stack.enter_context(servers.cluster(folder))
                self._urls[kind] = "redis://" + ",".join(f"{host}:{port}" for host, port in nodes)
            elif kind == "redis":
                self._urls[kind] = self._stack.enter_context(servers.debian_redis(folder))
            else:
                url = self._stack.enter_context(servers.standalone(folder))
                self._urls[kind] = url
                if kind == "packed":
                    _load_library_that_packs_every_batch(url)
        return self._urls[kind]

    def client(self, kind: str) -> holdfast.Client:
        if kind not in self._clients:
            url = self.url(kind)
            if url is None:
                pytest.skip("no redis-server on PATH")
            self._clients[kind] = holdfast.connect(url, check="off")
            if kind != "packed":
                # Some tests call functions behind the client's back, before it has loaded them.
                Raw(self._clients[kind]).everywhere("FUNCTION", "LOAD", "REPLACE", library.source())
        return self._clients[kind]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._stack.close()


def _load_library_that_packs_every_batch(url: str) -> None:
    """Batches of one are packed too, so that every test takes the way that only large ones take.

    The library keeps its version, so that the client takes it for its own.
    """
    packs_all = library.source().replace("HF.PACK_FROM = 8", "HF.PACK_FROM = 1")
    assert packs_all != library.source()
    with redis.Redis.from_url(url) as raw:
        raw.function_load(packs_all)


@pytest.fixture(scope="session")
def all_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    started = Servers(lambda kind: tmp_path_factory.mktemp(kind))
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="session")
def setting(request: pytest.FixtureRequest) -> Setting:
    chosen = request.param
    assert isinstance(chosen, Setting)
    return chosen


@pytest.fixture
def hf(all_servers: Servers, setting: Setting) -> holdfast.Client:
    return all_servers.client(setting.kind)


_numbers = itertools.count(1)


@pytest.fixture
def new_queue(hf: holdfast.Client, setting: Setting) -> Callable[[], holdfast.Queue]:
    """Makes queues that no other test has seen, with as many shards as the setting says."""

    def make() -> holdfast.Queue:
        queue = hf.queue(f"q{next(_numbers)}")
        if setting.shards > 1:
            queue.configure(shards=setting.shards)
        return queue

    return make


@pytest.fixture
def q(new_queue: Callable[[], holdfast.Queue]) -> holdfast.Queue:
    return new_queue()


@pytest.fixture
def clock(q: holdfast.Queue) -> Clock:
    """The clock of `q`, standing still."""
    return Clock(q)


@pytest.fixture
def new_topic(hf: holdfast.Client) -> Callable[[], holdfast.Topic]:
    """Makes topics that no other test has seen."""
    return lambda: hf.topic(f"t{next(_numbers)}")


@pytest.fixture
def topic(new_topic: Callable[[], holdfast.Topic]) -> holdfast.Topic:
    return new_topic()


@pytest.fixture
def topic_clock(topic: holdfast.Topic) -> Clock:
    """The clock of `topic` and of those who subscribe to it, standing still."""
    return Clock(topic)


@pytest.fixture
def raw(hf: holdfast.Client) -> Raw:
    """The server behind the queue's back."""
    return Raw(hf)
