"""Arguments as commands want them: numbers, texts, options; with the errors that Redis would give."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.message import utc
from holdfast.server.entrance import Place, Seat
from holdfast.server.resp.writer import Failure

_LARGEST = 2**63


def shown(argument: bytes) -> str:
    """An argument in an error: never long, never with line ends."""
    text = ascii(argument[:64].decode("utf-8", "replace"))
    return text if len(argument) <= 64 else f"{text}…"


def integer(argument: bytes, what: str) -> int:
    digits = argument[1:] if argument[:1] == b"-" else argument
    value = int(argument) if digits.isdigit() and len(digits) < 20 else _LARGEST
    if not -_LARGEST <= value < _LARGEST:
        raise Failure(
            f"value is not an integer or out of range: {what} must be a whole number, "
            f"not {shown(argument)}"
        )
    return value


def natural(argument: bytes, what: str) -> int:
    """A whole number, not negative."""
    value = integer(argument, what)
    if value < 0:
        raise Failure(f"{what} must be >= 0, not {value}")
    return value


def count(argument: bytes) -> int:
    value = integer(argument, "count")
    if value < 1:
        raise Failure("count must be >= 1")
    return value


def seconds(argument: bytes, what: str) -> float:
    """Milliseconds, as all commands take times, in the seconds that everything behind them takes."""
    return natural(argument, f"{what}, in ms,") / 1000


def lease(argument: bytes, what: str) -> float | None:
    """The same for a lease. NONE: until settled."""
    return None if argument.upper() == b"NONE" else seconds(argument, what)


def positive_lease(argument: bytes, what: str) -> float | None:
    """The same where a lease begins: 0 would be none at all."""
    found = lease(argument, what)
    if found == 0:
        raise Failure(f"{what} must be more than 0 ms; write NONE for one that lasts until settled")
    return found


def number(argument: bytes, what: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise Failure(f"{what} must be a number, not {shown(argument)}") from None


def text(argument: bytes, what: str) -> str:
    try:
        return argument.decode()
    except UnicodeDecodeError:
        raise Failure(f"{what} must be UTF-8 text, not {shown(argument)}") from None


def texts(arguments: Sequence[bytes], what: str) -> list[str]:
    return [text(argument, what) for argument in arguments]


class Words:
    """Arguments read from left to right, some of them options."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._words = words
        self._at = 0

    def __len__(self) -> int:
        return len(self._words) - self._at

    def option(self, *names: str) -> str | None:
        """The next word, taken, if it is one of these whatever its case; None if it is not."""
        if self._at < len(self._words):
            word = self._words[self._at].upper()
            for name in names:
                if word == name.encode():
                    self._at += 1
                    return name
        return None

    def word(self, what: str) -> bytes:
        if self._at >= len(self._words):
            raise Failure(f"syntax error: {what} is missing")
        self._at += 1
        return self._words[self._at - 1]

    def text(self, what: str) -> str:
        return text(self.word(what), what)

    def rest(self) -> list[bytes]:
        left = list(self._words[self._at :])
        self._at = len(self._words)
        return left

    def end(self) -> None:
        if len(self):
            raise Failure(f"syntax error: {shown(self._words[self._at])} is not expected here")

    def place(self) -> Place:
        """`key`, a queue; or `topic FOR consumer [PEER peer]`, a consumer's seat at a topic."""
        name = self.text("key")
        if not self.option("FOR"):
            return name
        consumer = self.text("the consumer's id")
        peer = self.text("the peer's id") if self.option("PEER") else ""
        return Seat(name, consumer, peer)


def when(argument: bytes, what: str) -> datetime:
    """A point in time, from ms since 1970."""
    ms = natural(argument, f"{what}, in ms since 1970,")
    try:
        return utc(ms)
    except (ValueError, OverflowError, OSError):
        raise Failure(f"{what} is too far in the future: {ms}") from None
