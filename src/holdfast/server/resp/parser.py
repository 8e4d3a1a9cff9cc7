"""Requests out of bytes: arrays of bulk strings, as clients send them, and inline commands, as people
type them. Does no I/O: bytes in, lists of arguments out.

What has not arrived costs nothing: a declared length is only ever compared, never allocated. Every
byte is looked at once whatever pieces it comes in, since what is incomplete waits as a list of pieces
and is joined when it is whole. hiredis.Reader was not used for this side: it makes room for as many
elements as an array announces, nests, and believes in lengths of gigabytes.
"""

from __future__ import annotations

from holdfast.errors import TooLarge
from holdfast.server.limits import Limits

# A header is a sign, at most 20 digits, and CRLF.
_HEADER = 32
# What Python takes to keep an argument, beyond its bytes.
_EACH = 48
_STAR, _DOLLAR = b"*"[0], b"$"[0]


class ProtocolError(Exception):
    """What came is no request, and nobody can tell where the next one starts."""


class Parser:
    def __init__(self, limits: Limits) -> None:
        self._most_arguments = limits.arguments
        self._most_bytes = limits.request_bytes
        self._most_inline = limits.inline_bytes
        # What is being looked at, from where on, and what came since.
        self._data = b""
        self._at = 0
        self._fresh: list[bytes] = []
        self._fresh_size = 0
        # The same cut at every CRLF, and which line comes next; whether that was tried. See _read_lines.
        self._lines: list[bytes] = []
        self._line = 0
        self._cut = False
        # The request that is being read: its arguments so far, how many are to come (-1: none is being
        # read), and how many bytes it has.
        self._arguments: list[bytes] = []
        self._left = -1
        self._size = 0
        # The bulk string or line that is being read: its pieces, and how many bytes are to come.
        self._pieces: list[bytes] = []
        self._missing = 0
        self._line_size = 0

    @property
    def buffered(self) -> int:
        """Bytes that are kept: of requests not yet complete, and of those not yet asked for."""
        kept = self._size + self._line_size + len(self._data) - self._at
        return kept + _EACH * len(self._arguments) + self._fresh_size

    def feed(self, data: bytes) -> None:
        self._fresh.append(data)
        self._fresh_size += len(data)

    def next(self) -> list[bytes] | None:
        """The next complete request, never empty; None if more bytes are needed.

        Raises ProtocolError or TooLarge, after which this parser is of no use.
        """
        while True:
            if (request := self._next()) is not None:
                return request
            if not self._fresh:
                return None
            # What is left is less than a header: all else was moved to the pieces.
            self._data = b"".join([self._data[self._at :], *self._fresh])
            self._at = 0
            self._fresh, self._fresh_size = [], 0
            self._lines, self._cut = [], False

    def _next(self) -> list[bytes] | None:
        while True:
            if self._left < 0:
                begun = self._begin()
                if begun is None or begun:
                    return begun
                continue
            if not self._read_bulks():
                return None
            self._lines = []  # this one was read without them
            arguments = self._arguments
            self._arguments, self._left, self._size = [], -1, 0
            return arguments

    def _begin(self) -> list[bytes] | None:
        """An inline command, or [] when something else was read, or None for more bytes."""
        data, at = self._data, self._at
        if at >= len(data):
            return None
        if data[at] != _STAR or self._line_size:
            self._lines = []
            return self._inline()
        if found := self._read_lines():
            return found
        count = self._header(_STAR, "invalid multibulk length")
        if count is None:
            return None
        if count > self._most_arguments:
            raise ProtocolError(
                f"invalid multibulk length: at most {self._most_arguments} arguments in one request"
            )
        if count > 0:
            self._left = count
        return []

    def _read_lines(self) -> list[bytes] | None:
        """A request of which no argument has a CRLF in it, all there: three times as fast.

        Cut at every CRLF, headers and arguments take turns. If each header is exactly what its
        argument would have, that is what reading them one by one would find too. Anything else is
        left to those who read one by one.
        """
        if not self._cut:
            self._cut = True
            data, at = self._data, self._at
            # Not for what is mostly CRLF: its lines would take much more memory than itself.
            if data.count(b"\r\n", at) * 8 <= len(data) - at:
                self._lines, self._line = data[at:].split(b"\r\n"), 0
        lines, line = self._lines, self._line
        if not lines:
            return None
        header = lines[line]
        digits = header[1:]
        count = int(digits) if digits.isdigit() and len(digits) < 10 else 0
        end = line + 1 + 2 * count
        # The last line of all has no CRLF behind it.
        if not 0 < count <= self._most_arguments or end >= len(lines):
            self._lines = []
            return None
        arguments = lines[line + 2 : end : 2]
        sizes = list(map(len, arguments))
        size = sum(sizes)
        if lines[line + 1 : end : 2] != [b"$%d" % n for n in sizes] or size > self._most_bytes:
            self._lines = []
            return None
        self._at += len(header) + 2 + size + 2 * count + sum(map(len, lines[line + 1 : end : 2]))
        self._at += 2 * count
        self._line = end
        return arguments

    def _header(self, sign: int, what: str) -> int | None:
        """The number behind a sign; None if its line is not complete."""
        data, at = self._data, self._at
        if data[at] != sign:
            raise ProtocolError(f"expected '{chr(sign)}', got {chr(data[at])!a}")
        end = data.find(b"\r\n", at, at + _HEADER)
        if end < 0:
            if len(data) - at >= _HEADER:
                raise ProtocolError(what)
            return None
        digits = data[at + 1 : end]
        self._at = end + 2
        if digits.isdigit():
            return int(digits)
        if sign == _STAR and digits[:1] == b"-" and digits[1:].isdigit():
            return -1  # Redis ignores these
        raise ProtocolError(what)

    def _read_bulks(self) -> bool:
        """True when all arguments of the request are there."""
        if self._missing:
            if not self._go_on():
                return False
            self._left -= 1
        data, at, size = self._data, self._at, len(self._data)
        arguments, left, room = self._arguments, self._left, self._most_bytes - self._size
        find = data.find
        while left:
            # The common case, without a call: "$", one to nine digits, CRLF, and the bytes behind it.
            end = find(b"\r\n", at, at + 12)
            digits = data[at + 1 : end]
            if end < 0 or data[at] != _DOLLAR or not digits.isdigit():
                if at >= size:
                    break
                self._at = at
                length = self._header(_DOLLAR, "invalid bulk length")
                if length is None:
                    break
                at = self._at
            else:
                length, at = int(digits), end + 2
            room -= length
            if room < 0:
                raise TooLarge(
                    f"a request may have {self._most_bytes} bytes, this one has more; send the "
                    "messages in several requests"
                )
            stop = at + length
            if stop + 2 > size:
                self._pieces, self._missing = [data[at:]], stop + 2 - size
                self._size += size - at
                at = size
                break
            if data[stop : stop + 2] != b"\r\n":
                raise ProtocolError("a bulk string must end with CRLF")
            arguments.append(data[at:stop])
            self._size += length
            at = stop + 2
            left -= 1
        self._at, self._left = at, left
        return not left

    def _go_on(self) -> bool:
        """More of a bulk string of which the beginning came earlier."""
        part = self._data[self._at : self._at + self._missing]
        self._pieces.append(part)
        self._missing -= len(part)
        self._size += len(part)
        self._at += len(part)
        if self._missing:
            return False
        whole = b"".join(self._pieces)
        self._pieces = []
        if whole[-2:] != b"\r\n":
            raise ProtocolError("a bulk string must end with CRLF")
        self._arguments.append(whole[:-2])
        self._size -= 2
        return True

    def _inline(self) -> list[bytes] | None:
        data, at = self._data, self._at
        end = data.find(b"\n", at)
        if end < 0:
            self._pieces.append(data[at:])
            self._line_size += len(data) - at
            self._data, self._at = b"", 0
            self._check_inline(self._line_size)
            return None
        self._pieces.append(data[at:end])
        self._at = end + 1
        line = b"".join(self._pieces)
        self._pieces, self._line_size = [], 0
        self._check_inline(len(line))
        words = split_line(line.removesuffix(b"\r"))
        if len(words) > self._most_arguments:
            raise ProtocolError(f"at most {self._most_arguments} arguments in one request")
        return words

    def _check_inline(self, size: int) -> None:
        if size > self._most_inline:
            raise ProtocolError(f"too big inline request: at most {self._most_inline} bytes")


_ESCAPES = {ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t", ord("b"): b"\b", ord("a"): b"\a"}
_HEX = b"0123456789abcdefABCDEF"


def split_line(line: bytes) -> list[bytes]:
    """The words of a line, which may be quoted as redis-cli does: "a\\x00b" or 'it\\'s'."""
    words: list[bytes] = []
    at, size = 0, len(line)
    while True:
        while at < size and line[at : at + 1].isspace():
            at += 1
        if at >= size:
            return words
        word = bytearray()
        while at < size and not line[at : at + 1].isspace():
            if line[at] in b"\"'":
                at = _quoted(line, at, word)
                if at < size and not line[at : at + 1].isspace():
                    raise ProtocolError("unbalanced quotes in request")
                break
            word.append(line[at])
            at += 1
        words.append(bytes(word))


def _quoted(line: bytes, at: int, word: bytearray) -> int:
    """Appends what is between the quotes; the position behind them."""
    quote, size = line[at], len(line)
    double = quote == b'"'[0]
    at += 1
    while at < size:
        byte = line[at]
        if byte == quote:
            return at + 1
        follows = line[at + 1 : at + 4]
        if byte != b"\\"[0] or not follows:
            word.append(byte)
            at += 1
        elif not double:
            escaped = follows[0] == quote
            word.append(quote if escaped else byte)
            at += 2 if escaped else 1
        elif follows[:1] == b"x" and len(follows) == 3 and all(c in _HEX for c in follows[1:]):
            word.append(int(follows[1:], 16))
            at += 4
        else:
            word += _ESCAPES.get(follows[0], follows[:1])
            at += 2
    raise ProtocolError("unbalanced quotes in request")
