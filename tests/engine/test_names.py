from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from holdfast import Client, InvalidArgument, Queue, names
from holdfast.engine.keys import CATALOGUE, REGISTRY, QueueRef, base, suffixed
from tests.clock import Clock
from tests.engine.look import bodies, drain

# Names made of what could confuse a key most.
tricky = st.text(
    st.sampled_from("ab{}#%:1257BDr") | st.characters(codec="utf-8"), min_size=1, max_size=8
)


@given(tricky, tricky, st.integers(0, 255), st.integers(0, 255))
@pytest.mark.slow
def test_no_two_queues_or_shards_share_a_base(a: str, b: str, i: int, j: int) -> None:
    assert (base(a, i) == base(b, j)) == ((a, i) == (b, j))


@given(tricky, tricky, st.sampled_from(sorted(CATALOGUE)), st.sampled_from(sorted(CATALOGUE)))
def test_no_two_queues_share_any_key(a: str, b: str, one: str, other: str) -> None:
    tails = {"ready": "0", "group": "x", "last_send": "y"}
    first = suffixed(base(a), one, tails.get(one, ""))
    second = suffixed(base(b), other, tails.get(other, ""))
    assert (first == second) == ((a, one) == (b, other))
    assert REGISTRY not in (first, second, base(a))


@given(tricky, st.sampled_from(["ready", "group", "last_send"]), tricky, tricky)
def test_what_is_appended_to_a_key_keeps_keys_apart(q: str, name: str, a: str, b: str) -> None:
    assert (suffixed(base(q), name, a) == suffixed(base(q), name, b)) == (a == b)
    for other in CATALOGUE:
        if other != name:
            assert suffixed(base(q), name, a) != suffixed(base(q), other)


@given(tricky, st.integers(0, 255), tricky)
def test_all_keys_of_a_shard_lie_in_one_slot(name: str, shard: int, group: str) -> None:
    home = key_slot(base(name, shard).encode())
    for lua_name in CATALOGUE:
        assert key_slot(suffixed(base(name, shard), lua_name, group).encode()) == home


def test_shards_lie_in_slots_of_their_own() -> None:
    assert len({key_slot(QueueRef("orders", n).key.encode()) for n in range(20)}) == 20


def test_suffixes_are_short_and_all_different() -> None:
    suffixes = [entry[0] for entry in CATALOGUE.values()]
    assert len(set(suffixes)) == len(suffixes)
    assert all(s.startswith(":") for s in suffixes)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "a name must have 1 to 200 characters, this one has 0"),
        ("x" * 201, "a name must have 1 to 200 characters, this one has 201"),
        ("a\nb", "a name 'a\\nb' has characters that cannot be printed"),
        ("a\x00b", "a name 'a\\x00b' has characters that cannot be printed"),
        ("a\ud800", "a name 'a\\ud800' has characters that cannot be printed"),
        (b"bytes", "a name must be text, not bytes"),
        (None, "a name must be text, not NoneType"),
        (5, "a name must be text, not int"),
    ],
)
def test_what_may_not_be_a_name_is_refused(name: object, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        names.check(name, "a name")
    assert str(refused.value) == says


@pytest.mark.parametrize("name", ["x", "x" * 200, "ü" * 200, "a b", "{}", "#", "%", "日本", "😀"])
def test_what_may_be_a_name_is_taken_as_it_is(hf: Client, q: Queue, name: str) -> None:
    assert names.check(name, "a name") == name
    queue = hf.queue(name)
    queue.purge()
    clock = Clock(queue)
    queue.send(name, group=name, dedup_id=f"{name}"[:200])
    queue.ensure(name, b"unique")
    assert sorted(bodies(drain(queue))) == sorted([name.encode(), b"unique"])
    clock.advance(1)
    queue.delete()
