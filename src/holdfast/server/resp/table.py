"""All commands of the RESP door, by name."""

from __future__ import annotations

from holdfast.server.resp import (
    about,
    greeting,
    keeping,
    queues,
    sending,
    settling,
    taking,
    topics,
)
from holdfast.server.resp.command import Command

_FILES = (queues, sending, taking, settling, keeping, topics, greeting, about)
TABLE: dict[bytes, Command] = {
    command.name.upper().encode(): command for file in _FILES for command in file.COMMANDS
}
