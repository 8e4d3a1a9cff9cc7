"""The parser: any bytes in any pieces, and never more memory than what has come."""

from __future__ import annotations

import itertools
import tracemalloc

import hiredis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import TooLarge
from holdfast.server.limits import Limits
from holdfast.server.resp.parser import Parser, ProtocolError, split_line

LIMITS = Limits()
SMALL = Limits(arguments=5, request_bytes=100, inline_bytes=40)

arguments = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"\r\n", b"$3\r\n", b"*1\r\n"])),
    min_size=1,
    max_size=12,
)


def wire(request: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(request) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in request)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({c % (len(data) + 1) for c in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def read(parser: Parser, parts: list[bytes]) -> list[list[bytes]]:
    found = []
    for part in parts:
        parser.feed(part)
        while (request := parser.next()) is not None:
            found.append(request)
    return found


@given(st.lists(arguments, max_size=8), st.lists(st.integers(0), max_size=20))
@example([[b"a", b"b\r\nc", b"d"]], [])
@pytest.mark.slow
def test_requests_come_out_as_they_went_in_however_they_are_cut(
    requests: list[list[bytes]], cuts: list[int]
) -> None:
    data = b"".join(map(wire, requests))
    assert read(Parser(LIMITS), pieces(data, cuts)) == requests


def test_a_request_may_be_cut_in_two_anywhere() -> None:
    requests = [[b"MQ.PUSH", b"k" * 60, b"x" * 70], [b"y" * 90]]
    data = b"".join(map(wire, requests))
    for cut in range(len(data)):
        assert read(Parser(LIMITS), [data[:cut], data[cut:]]) == requests, cut


def test_a_request_is_whole_with_its_last_crlf_and_not_before() -> None:
    parser = Parser(LIMITS)
    parser.feed(wire([b"x" * 90])[:-2])
    assert parser.next() is None
    parser.feed(b"\r\n")
    assert parser.next() == [b"x" * 90]


@given(st.lists(arguments, min_size=1, max_size=4))
def test_byte_by_byte_is_the_same_as_all_at_once(requests: list[list[bytes]]) -> None:
    data = b"".join(map(wire, requests))
    parser = Parser(LIMITS)
    assert read(parser, [data[i : i + 1] for i in range(len(data))]) == requests
    assert parser.buffered == 0


@given(st.lists(arguments, max_size=8), st.lists(st.integers(0), max_size=9))
@pytest.mark.slow
def test_it_reads_valid_requests_as_hiredis_does(
    requests: list[list[bytes]], cuts: list[int]
) -> None:
    data = b"".join(map(wire, requests))
    theirs = hiredis.Reader()
    theirs.feed(data)
    expected = []
    while (found := theirs.gets()) is not False:
        expected.append(found)
    assert read(Parser(LIMITS), pieces(data, cuts)) == expected


SNIPPETS = st.sampled_from(
    [
        b"*",
        b"$",
        b"\r\n",
        b"*3\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$3\r\nabc\r\n",
        b"PING\r\n",
        b"'",
        b'"',
        b"*2147483647\r\n",
        b"$999999999999\r\n",
        b"*1\r\n*1\r\n",
        b"%1\r\n",
        b"\0",
        b"-ERR\r\n",
        b"+a\r\n",
    ]
)


@given(st.lists(st.one_of(SNIPPETS, st.binary(max_size=30)), max_size=30))
@settings(max_examples=600)
@pytest.mark.slow
def test_garbage_is_refused_or_waited_out_and_never_kept_beyond_what_came(
    parts: list[bytes],
) -> None:
    parser, came = Parser(LIMITS), 0
    for part in parts:
        parser.feed(part)
        came += len(part)
        try:
            while (request := parser.next()) is not None:
                assert request
                assert all(isinstance(argument, bytes) for argument in request)
        except (ProtocolError, TooLarge):
            return
        assert parser.buffered <= came + 48 * came


@given(st.lists(st.one_of(SNIPPETS, st.binary(max_size=12)), max_size=12), st.lists(st.integers(0)))
def test_garbage_means_the_same_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    def outcome(fed: list[bytes]) -> tuple[list[list[bytes]], str]:
        parser, found = Parser(SMALL), []
        try:
            for part in fed:
                parser.feed(part)
                while (request := parser.next()) is not None:
                    found.append(request)
        except (ProtocolError, TooLarge) as error:
            return found, type(error).__name__
        return found, "fine"

    data = b"".join(parts)
    assert outcome(pieces(data, cuts)) == outcome([data])


@pytest.mark.parametrize(
    "declared",
    [b"*20000\r\n", b"*1\r\n$67108864\r\n", b"*2\r\n$1\r\na\r\n$67108000\r\n"],
    ids=["arguments", "bytes", "the second argument"],
)
def test_a_declared_length_takes_no_memory(declared: bytes) -> None:
    parser = Parser(LIMITS)
    tracemalloc.start()
    try:
        parser.feed(declared)
        assert parser.next() is None
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"*20001\r\n", "at most 20000 arguments"),
        (b"*99999999999999999999\r\n", "arguments"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*" + b"1" * 40, "invalid multibulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        (b"*1\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n$1\r\nabc", "must end with CRLF"),
        (b"x" * 70_000, "too big inline request"),
        (b"'a\r\n", "unbalanced quotes"),
    ],
)
def test_what_is_no_request_is_refused(sent: bytes, says: str) -> None:
    parser = Parser(LIMITS)
    parser.feed(sent)
    with pytest.raises(ProtocolError, match=says.replace("$", r"\$").replace("*", r"\*")):
        parser.next()


@pytest.mark.parametrize("cut", [False, True])
def test_a_request_past_the_limit_is_refused_before_it_has_come(cut: bool) -> None:
    parser = Parser(SMALL)
    start = wire([b"a" * 60, b"b" * 60])
    with pytest.raises(TooLarge, match="100 bytes"):
        read(parser, [start[:80], start[80:90]] if cut else [start])


def test_requests_before_a_bad_one_are_answered() -> None:
    parser = Parser(LIMITS)
    parser.feed(wire([b"PING"]) + b"*1\r\n:1\r\n")
    assert parser.next() == [b"PING"]
    with pytest.raises(ProtocolError):
        parser.next()


def test_empty_requests_and_lines_are_passed_over() -> None:
    assert read(Parser(LIMITS), [b"*0\r\n\r\n*-1\r\n\nPING\r\n"]) == [[b"PING"]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"SET a b", [b"SET", b"a", b"b"]),
        (b"  SET\ta  ", [b"SET", b"a"]),
        (rb'"a\x00\n\"b" x', [b'a\x00\n"b', b"x"]),
        (rb"'it\'s \n'", [rb"it's \n"]),
        (b'""', [b""]),
        (rb'"\xzz"', [b"xzz"]),
    ],
)
def test_a_line_is_split_as_redis_splits_it(line: bytes, words: list[bytes]) -> None:
    assert split_line(line) == words


def test_a_large_argument_in_small_pieces_costs_its_size_once() -> None:
    parser = Parser(LIMITS)
    body = bytes(1_000_000)
    data = wire([b"MQ.PUSH", b"k", body])
    tracemalloc.start()
    try:
        [request] = read(parser, [data[i : i + 1000] for i in range(0, len(data), 1000)])
        assert tracemalloc.get_traced_memory()[1] < 4_500_000
    finally:
        tracemalloc.stop()
    assert request[2] == body
