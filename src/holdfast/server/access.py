"""Who may do what: a principal has rights, a right is verbs on a kind of thing with a name prefix.

    send,ack queue:orders.*        these two verbs on queues whose names start with "orders."
    consume queue:*                a group of verbs, on every queue
    publish topic:prices           this one topic
    all *:*                        everything

The verbs are those of the glossary; the groups below save writing them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from holdfast.errors import InvalidArgument, Refused

Kind = Literal["queue", "topic"]

QUEUE_VERBS = (
    "send",
    "receive",
    "ack",
    "nack",
    "extend",
    "recover",
    "inspect",
    "stats",
    "redrive",
    "remove",
    "reschedule",
    "purge",
    "pause",
    "configure",
    "delete",
)
TOPIC_VERBS = (
    "publish",
    "subscribe",
    "unsubscribe",
    "observe",
    "ack",
    "nack",
    "extend",
    "inspect",
    "stats",
    "redrive",
    "configure",
    "delete",
)
GROUPS: dict[str, frozenset[str]] = {
    "produce": frozenset({"send", "publish"}),
    "consume": frozenset(
        {"receive", "subscribe", "unsubscribe", "observe", "ack", "nack", "extend", "recover"}
    ),
    "look": frozenset({"inspect", "stats"}),
    "manage": frozenset(
        {"redrive", "remove", "reschedule", "purge", "pause", "configure", "delete"}
    ),
    "all": frozenset({*QUEUE_VERBS, *TOPIC_VERBS}),
}


@dataclass(frozen=True, slots=True)
class Right:
    verbs: frozenset[str]
    kind: Kind | Literal["*"]
    prefix: str
    exact: bool
    """The prefix is the whole name."""

    def permits(self, verb: str, kind: Kind, name: str) -> bool:
        if verb not in self.verbs or self.kind not in ("*", kind):
            return False
        return name == self.prefix if self.exact else name.startswith(self.prefix)


def right(text: str) -> Right:
    """A right from its text. Raises InvalidArgument, saying what is wrong with it."""
    words, _, where = text.strip().partition(" ")
    kind, colon, name = where.strip().partition(":")
    verbs: set[str] = set()
    for word in words.split(","):
        if word in GROUPS:
            verbs |= GROUPS[word]
        elif word in GROUPS["all"]:
            verbs.add(word)
        else:
            known = ", ".join(sorted({*GROUPS, *GROUPS["all"]}))
            raise InvalidArgument(f"{word!r} in the right {text!r} is no verb; there are: {known}")
    if kind not in ("queue", "topic", "*") or not colon or not name:
        raise InvalidArgument(
            f"the right {text!r} must end with queue:NAME, topic:NAME or *:NAME, where NAME may end "
            "with * to mean all names that start so"
        )
    exact = not name.endswith("*")
    return Right(frozenset(verbs), kind, name if exact else name[:-1], exact)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who speaks: a name for the logs, and what they may do."""

    name: str
    rights: tuple[Right, ...]
    key: bytes = field(default=b"", repr=False)
    """What they entered by, in a form that opens nothing: a new secret makes a new principal."""

    def may(self, verb: str, kind: Kind, name: str) -> bool:
        return any(right.permits(verb, kind, name) for right in self.rights)

    def require(self, verb: str, kind: Kind, name: str) -> None:
        """Raises Refused if this is not theirs to do."""
        if not self.may(verb, kind, name):
            raise Refused(
                f"{self.name} may not {verb} on {kind} {name!r}; "
                f"a token with the right '{verb} {kind}:{name}' may"
            )


# Whoever connects where no tokens are configured, which loopback alone permits.
EVERYBODY = Principal("everybody", (Right(GROUPS["all"], "*", "", exact=False),))
