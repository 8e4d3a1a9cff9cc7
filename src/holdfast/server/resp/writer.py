"""Replies as bytes, in RESP2 or RESP3.

A handler answers with plain values; what they become is decided here and nowhere else:

    bytes, str      bulk string              int             integer
    Simple          simple string            Failure         error
    None            null                     NIL             null where an array could have been
    list, tuple     array                    dict            map (RESP2: an array of pairs, flat)
    bool, float     RESP3: themselves; RESP2: 0 or 1, and a bulk string
    Encoded         already in this form, the same in both versions
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

from holdfast.errors import HoldfastError

Reply: TypeAlias = Any
"""One of the above."""


class Nil(Enum):
    NIL = "nil"


NIL = Nil.NIL


class Simple(str):
    __slots__ = ()


class Encoded(bytes):
    __slots__ = ()


class Failure(Exception):
    """An error reply: a word in capitals for programs, and a text for people. Handlers raise it."""

    def __init__(self, text: str, word: str = "ERR") -> None:
        super().__init__(text)
        self.word = word
        self.text = text


OK = Simple("OK")


def failure(error: HoldfastError) -> Failure:
    """Every typed error, by its own code word."""
    return Failure(str(error), error.code)


def encode(reply: Reply, protocol: int) -> bytes:
    if type(reply) is Encoded:
        return reply
    out: list[bytes] = []
    _write(out, reply, protocol)
    return b"".join(out)


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


def _write(out: list[bytes], reply: Reply, protocol: int) -> None:
    match reply:
        case Encoded():
            out.append(reply)
        case bytes():
            out.append(bulk(reply))
        case Simple():
            out.append(b"+%b\r\n" % _one_line(reply))
        case str():
            out.append(bulk(reply.encode("utf-8", "surrogateescape")))
        case bool():
            value = b"#t" if reply else b"#f"
            out.append(b"%b\r\n" % value if protocol == 3 else b":%d\r\n" % reply)
        case int():
            out.append(b":%d\r\n" % reply)
        case float():
            text = f"{reply:.17g}".encode()
            out.append(b",%b\r\n" % text if protocol == 3 else bulk(text))
        case None:
            out.append(b"_\r\n" if protocol == 3 else b"$-1\r\n")
        case Nil():
            out.append(b"_\r\n" if protocol == 3 else b"*-1\r\n")
        case list() | tuple():
            out.append(b"*%d\r\n" % len(reply))
            for item in reply:
                _write(out, item, protocol)
        case dict():
            size = len(reply)
            out.append(b"%%%d\r\n" % size if protocol == 3 else b"*%d\r\n" % (2 * size))
            for key, value in reply.items():
                _write(out, key, protocol)
                _write(out, value, protocol)
        case Failure():
            out.append(b"-%b\r\n" % _one_line(f"{reply.word} {reply.text}"))
        case _:
            raise TypeError(f"no reply for {type(reply).__name__}")


def _one_line(text: str) -> bytes:
    """A line ends at CR or LF, and an error may quote what a client sent."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return text.encode("utf-8", "replace")
