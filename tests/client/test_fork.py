"""A client in the child of a fork: it acts under its own name, over its own connections, and leaves alone
what is the parent's. Each test is a small program, so that nothing of the tests' own process is forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_BEGIN = """
import asyncio, json, multiprocessing, os, secrets, signal, sys, threading, time, traceback
import holdfast, redis

def child(act):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)

def ended(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def until(true):
    give_up = time.monotonic() + 10
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)

def bodies(q):
    return sorted(bytes(m.body) for m in q.inspect("ready", 0, 10_000))

url, name = sys.argv[1], "q-" + secrets.token_hex(4)
hf = holdfast.connect(url) if url else None
q = hf.queue(name) if hf else None
"""


def run(source: str, *arguments: str | Path) -> str:
    """What a program prints; it must end by itself, and well."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            _BEGIN + source,
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_a_child_and_its_parent_never_send_under_one_name(url: str) -> None:
    run(
        """
q.send(b"a")
ended(child(lambda: q.send(b"child")))
redis.Redis.from_url(url).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
q.send(b"parent")
assert bodies(q) == [b"a", b"child", b"parent"], bodies(q)
""",
        url,
    )


def test_children_of_a_prefork_server_send_and_receive_at_once(url: str) -> None:
    run(
        """
q.send(b"warm"); q.ack(q.receive())
def work():
    for n in range(30):
        q.send(b"%d-%d" % (os.getpid(), n))
        d = q.receive(wait=10)
        d.ack()
pids = [child(work) for _ in range(4)]
for pid in pids: ended(pid)
stats = q.stats()
assert stats.sent == stats.acked == 1 + 4 * 30 and stats.total == 0, stats
""",
        url,
    )


def test_through_grpc_children_use_a_client_that_the_parent_has_not_used(door_url: str) -> None:
    run(
        """
def work():
    signal.alarm(20)
    for n in range(10):
        q.send(b"%d-%d" % (os.getpid(), n))
    async def more():
        async with holdfast.connect_async(url) as c: await c.queue(name).send(b"async")
    asyncio.run(more())
pids = [child(work) for _ in range(2)]
for pid in pids: ended(pid)
assert q.stats().ready == 22
""",
        door_url,
    )


def test_through_grpc_a_child_of_one_that_has_used_it_is_refused(door_url: str) -> None:
    """gRPC itself would hang there."""
    run(
        """
q.send(b"a")
def use():
    signal.alarm(20)
    for client in (hf, holdfast.connect(url)):
        try:
            client.queue(name).send(b"b")
        except holdfast.Unsupported as error:
            assert "fork" in str(error)
        else:
            raise AssertionError
ended(child(use))
q.send(b"c")
assert bodies(q) == [b"a", b"c"]
""",
        door_url,
    )


def test_a_fork_amid_sending_threads_stores_everything_once(url: str) -> None:
    run(
        """
over, count = threading.Event(), [0] * 4
def send(i):
    while not over.is_set():
        q.send(b"t%d-%d" % (i, count[i])); count[i] += 1
threads = [threading.Thread(target=send, args=(i,)) for i in range(4)]
for t in threads: t.start()
until(lambda: min(count) > 5)
pids = []
for n in range(10):
    pids.append(child(lambda: [q.send(b"c%d-%d" % (n, i)) for i in range(10)]))
for pid in pids: ended(pid)
over.set()
for t in threads: t.join()
wanted = [b"t%d-%d" % (i, n) for i in range(4) for n in range(count[i])]
wanted += [b"c%d-%d" % (n, i) for n in range(10) for i in range(10)]
assert bodies(q) == sorted(wanted)
""",
        url,
    )


def test_a_pool_of_multiprocessing_shares_a_client_made_before(url: str) -> None:
    run(
        """
def work(n):
    return q.send(b"%d" % n)
q.send(b"0")
with multiprocessing.get_context("fork").Pool(3) as pool:
    ids = pool.map(work, range(1, 50))
assert len(set(ids)) == 49
assert bodies(q) == sorted(b"%d" % n for n in range(50))
""",
        url,
    )


def test_a_lock_that_another_thread_held_is_free_in_the_child(url: str) -> None:
    run(
        """
from holdfast.tasks.app import App
app = App(url)
@app.task
def add(a, b): return a + b
q.send(b"a"); add.send(1, 2)
held, over = threading.Event(), threading.Event()
def hold():
    [node] = hf.transport.routes._nodes.values()
    with node.lock, app._lock, app._defining:
        node.prepared = False
        held.set(); over.wait()
t = threading.Thread(target=hold); t.start(); held.wait()
def use():
    signal.alarm(10)
    q.send(b"b"); app._desk = None; add.send(3, 4); assert app.queues
pid = child(use); ended(pid); over.set(); t.join()
""",
        url,
    )


def test_gathered_sends_stay_with_the_parent(url: str) -> None:
    run(
        """
async def main():
    async with holdfast.connect_async(url) as c:
        aq = c.queue(name)
        await aq.send(b"first")
        sends = [asyncio.ensure_future(aq.send(b"p%03d" % n)) for n in range(300)]
        await asyncio.sleep(0)
        def in_child():
            signal.alarm(10)
            async def more(): return await asyncio.gather(*[aq.send(b"c%d" % n) for n in range(5)])
            asyncio.run(more())
        ended(child(in_child))
        await asyncio.gather(*sends)
        await aq.send(b"last")
asyncio.run(main())
wanted = [b"first", b"last"] + [b"p%03d" % n for n in range(300)] + [b"c%d" % n for n in range(5)]
assert bodies(q) == sorted(wanted), len(bodies(q))
""",
        url,
    )


def test_an_async_client_is_not_disturbed_by_the_end_of_a_child(url: str) -> None:
    """The child's copies of the parent's transports share the parent's epoll: closing them the usual way
    would deafen the parent."""
    run(
        """
import gc
async def main():
    async with holdfast.connect_async(url) as c:
        aq = c.queue(name)
        waiter = asyncio.ensure_future(aq.receive(wait=20))
        await asyncio.gather(*[c.ping() for _ in range(5)])
        await asyncio.sleep(0.2)
        def in_child():
            signal.alarm(10)
            async def use(): await c.queue(name + "x").send(b"x"); await c.close()
            asyncio.run(use()); gc.collect()
        ended(child(in_child))
        await asyncio.wait_for(asyncio.gather(*[c.ping() for _ in range(10)]), 5)
        t = time.monotonic()
        await aq.send(b"a")
        d = await waiter
        assert d.body == b"a" and time.monotonic() - t < 1
asyncio.run(main())
""",
        url,
    )


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_child_keeps_no_connection_of_a_dead_parent_alive(url: str, kind: str) -> None:
    """Else the server would go on to serve the parent's waiting receive, and lease a message to nobody."""
    run(
        """
raw = redis.Redis.from_url(url)
before = raw.info("clients")["blocked_clients"]
def waiting():
    return raw.info("clients")["blocked_clients"] > before
def leave_a_child():
    pid = os.fork()
    if pid == 0:
        os.close(1); os.close(2)
        time.sleep(30)
    print(pid, flush=True)
    os._exit(0)
def in_threads():
    threading.Thread(target=lambda: q.receive(wait=60), daemon=True).start()
    until(waiting)
    leave_a_child()
async def in_asyncio():
    async with holdfast.connect_async(url) as c:
        waits = asyncio.ensure_future(c.queue(name).receive(wait=60))
        while not waiting():
            await asyncio.sleep(0.01)
        leave_a_child()
sys.stdout.flush()
ended(child(in_threads if sys.argv[2] == "threads" else lambda: asyncio.run(in_asyncio())))
until(lambda: not waiting())
""",
        url,
        kind,
    )


def test_a_child_amid_a_consume_loop_hands_out_and_gives_back_nothing_of_its_parents(
    url: str,
) -> None:
    run(
        """
q.send_many([b"%02d" % n for n in range(20)])
seen, pid = [], 0
for d in q.consume(prefetch=20, lease=5, idle=0.3):
    with d:
        seen.append(bytes(d.body))
        if len(seen) == 3 and not pid:
            pid = os.fork()
            if pid == 0:
                # It leaves the loop, as a child that returns from where it was forked does.
                signal.alarm(10)
                break
if pid == 0:
    os._exit(0)
ended(pid)
stats = q.stats()
assert seen == [b"%02d" % n for n in range(20)], seen
assert stats.requeued == 0 and stats.received == 20, stats
""",
        url,
    )


def test_a_consume_loop_goes_on_in_a_child_as_one_of_its_own(url: str) -> None:
    run(
        """
q.send_many([b"old%d" % n for n in range(5)])
consumer = q.consume(prefetch=5, lease=1, idle=2)
going_on = iter(consumer)
first = next(going_on)
def in_child():
    signal.alarm(20)
    hf.queue(name).send(b"new")
    got = next(going_on)
    assert got.body == b"new", got.body
    with holdfast.connect(url) as other:
        began = time.monotonic()
        while time.monotonic() - began < 2:  # longer than the lease, which is kept
            assert other.queue(name).receive() is None
            time.sleep(0.05)
    got.ack()
    going_on.close()
pid = child(in_child)
ended(pid)
first.ack()
rest = [bytes(d.body) for d in going_on if d.ack() is None]
assert rest == [b"old%d" % n for n in range(1, 5)], rest
stats = q.stats()
assert stats.acked == 6 and stats.requeued == 0, stats
""",
        url,
    )


def test_a_child_does_not_take_its_parents_events(url: str) -> None:
    run(
        """
with q.events("sent") as events:
    q.send(b"a"); assert events.get(5).kind == "sent"
    ready, go = os.pipe(), os.pipe()
    def in_child():
        signal.alarm(10)
        assert events.get(0.3) is None
        os.write(ready[1], b"x"); os.read(go[0], 1)
        found = events.get(5)
        assert found is not None and found.kind == "sent"
    pid = child(in_child)
    os.read(ready[0], 1)
    q.send(b"b")
    assert events.get(5) is not None
    os.write(go[1], b"x")
    ended(pid)
""",
        url,
    )


def test_an_app_is_used_by_children_and_threads(url: str) -> None:
    run(
        """
app = holdfast.App(url, queue=name)
@app.task
def add(a, b): return a + b
first = add.send(1, 1)
pids = [child(lambda: [add.send(n, n) for n in range(10)]) for _ in range(3)]
for pid in pids: ended(pid)
async def some():
    await add.send_async(9, 9)
asyncio.run(some())
ended(child(lambda: asyncio.run(some())))
ended(child(app.close))
add.send(2, 2)
assert q.stats().ready == 1 + 30 + 2 + 1, q.stats()
""",
        url,
    )


def test_the_reaper_stays_with_the_parent_and_a_child_may_start_its_own(url: str) -> None:
    run(
        """
hf.start_reaper(0.05)
def in_child():
    signal.alarm(10)
    other = hf.queue(name + "c")
    other.send(b"a"); other.receive(lease=0.05)
    hf.start_reaper(0.05)
    until(lambda: other.stats().ready == 1)
    hf.close()
ended(child(in_child))
q.send(b"a"); q.receive(lease=0.05)
until(lambda: q.stats().ready == 1)
hf.close()
""",
        url,
    )


def test_the_embedded_server_stays_while_parent_or_child_is_there(tmp_path: Path) -> None:
    run(
        """
hf = holdfast.connect(home=sys.argv[2])
q = hf.queue("q")
q.send(b"a")
def short():
    q.send(b"short"); hf.close()
ended(child(short))
time.sleep(0.5)
q.send(b"b")
go, done = os.pipe(), os.pipe()
def long():
    signal.alarm(20)
    os.close(done[0]); os.read(go[0], 1)
    time.sleep(0.5)
    q.send(b"long"); assert q.stats().ready == 4
    os.write(done[1], b"1")
pid = child(long)
os.close(done[1])
hf.close()
os.write(go[1], b"x")
assert os.read(done[0], 1) == b"1"
ended(pid)
""",
        "",
        tmp_path / "home",
    )


def test_a_task_that_forks_can_send_from_the_child(url: str) -> None:
    run(
        """
from holdfast.worker.plan import Plan
from holdfast.worker.shares import Share
from holdfast.worker.worker import Worker
app = holdfast.App(url, queue=name)
@app.task
def leaf(n): return n
@app.task
def forks():
    for n in range(3):
        ended(child(lambda: leaf.send(n)))
    return "done"
handle = forks.send()
asyncio.run(Worker(app, Plan([Share(name)], idle=0.5, presence=False)).run())
assert handle.result() == "done"
stats = q.stats()
assert stats.acked == 4 and stats.total == 0 and stats.requeued == 0, stats
""",
        url,
    )
