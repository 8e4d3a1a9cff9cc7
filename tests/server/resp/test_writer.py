"""Replies as bytes, in both versions of the protocol."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import WrongType
from holdfast.server.resp.writer import NIL, OK, Encoded, Failure, Reply, encode, failure


@pytest.mark.parametrize(
    ("reply", "resp2", "resp3"),
    [
        (b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
        ("é", b"$2\r\n\xc3\xa9\r\n", b"$2\r\n\xc3\xa9\r\n"),
        (-5, b":-5\r\n", b":-5\r\n"),
        (OK, b"+OK\r\n", b"+OK\r\n"),
        (None, b"$-1\r\n", b"_\r\n"),
        (NIL, b"*-1\r\n", b"_\r\n"),
        ([1, [b""]], b"*2\r\n:1\r\n*1\r\n$0\r\n\r\n", b"*2\r\n:1\r\n*1\r\n$0\r\n\r\n"),
        ({"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (0.5, b"$3\r\n0.5\r\n", b",0.5\r\n"),
        (Encoded(b"+x\r\n"), b"+x\r\n", b"+x\r\n"),
        (Failure("no"), b"-ERR no\r\n", b"-ERR no\r\n"),
    ],
)
def test_each_kind_of_reply_has_its_form(reply: Reply, resp2: bytes, resp3: bytes) -> None:
    assert encode(reply, 2) == resp2
    assert encode(reply, 3) == resp3


@given(st.text())
def test_an_error_is_one_line_whatever_it_quotes(quoted: str) -> None:
    line = encode(Failure(quoted), 2)
    assert line.endswith(b"\r\n")
    assert b"\n" not in line[:-2]
    assert b"\r" not in line[:-2]


def test_a_typed_error_begins_with_its_code() -> None:
    assert encode(failure(WrongType("it is a list")), 2) == b"-WRONGTYPE it is a list\r\n"


values = st.recursive(
    st.one_of(st.binary(), st.integers(-(2**63), 2**63 - 1)),
    lambda inner: st.lists(inner, max_size=5),
)


@given(values, st.sampled_from([2, 3]))
@pytest.mark.slow
def test_hiredis_reads_back_what_was_written(value: Reply, protocol: int) -> None:
    reader = hiredis.Reader()
    reader.feed(encode(value, protocol))
    assert reader.gets() == value


def test_an_unknown_kind_of_reply_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="object"):
        encode(object(), 2)
