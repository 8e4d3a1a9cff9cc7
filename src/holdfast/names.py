"""What may be a name: of a queue, a group, a dedup id, an attribute.

One rule for all: text of 1 to 200 characters, no control characters, encodable as UTF-8. What a
key needs beyond that (braces, hashes) is escaped in `engine/keys.py`, so users never have to care.
"""

from __future__ import annotations

from holdfast.errors import InvalidArgument

MAX_LENGTH = 200


def check(name: object, what: str) -> str:
    """`name` itself if it may name a `what`; InvalidArgument otherwise."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{what} must be text, not {type(name).__name__}")
    if not 1 <= len(name) <= MAX_LENGTH:
        raise InvalidArgument(
            f"{what} must have 1 to {MAX_LENGTH} characters, this one has {len(name)}"
        )
    if not name.isprintable():
        raise InvalidArgument(f"{what} {name!r} has characters that cannot be printed")
    return name
