"""Settings in the words of RESP: all times are in milliseconds, and say so in their names.

`lease` of a queue is `lease_ms` here, and NONE or 0 stands for none.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from holdfast.server.resp.arguments import integer, shown, text
from holdfast.server.resp.writer import Failure
from holdfast.settings import Settings

_TYPES = {field.name: str(field.type) for field in fields(Settings)}
# What it is called here → what it is called everywhere else.
_NAMES = {f"{name}_ms" if "float" in kind else name: name for name, kind in _TYPES.items()}


def changes(arguments: list[bytes]) -> dict[str, Any]:
    """Settings to change, from names and values in turn."""
    if len(arguments) % 2:
        raise Failure("syntax error: each setting needs a value")
    found: dict[str, Any] = {}
    for raw, value in zip(arguments[::2], arguments[1::2], strict=True):
        said = text(raw, "a setting's name").lower()
        if said not in _NAMES:
            raise Failure(f"there is no setting {shown(raw)}; there are: {', '.join(_NAMES)}")
        name = _NAMES[said]
        found[name] = _value(_TYPES[name], said, value)
    return found


def _value(kind: str, said: str, value: bytes) -> Any:
    if "Literal" in kind:
        return text(value, said).lower()
    if value.lower() == b"none" and "None" in kind:
        return None
    whole = integer(value, said)
    if kind == "bool":
        return bool(whole) if whole in (0, 1) else whole
    if whole == 0 and "None" in kind:
        return None
    return whole / 1000 if "float" in kind else whole


def told(settings: Settings) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for said, name in _NAMES.items():
        value = getattr(settings, name)
        if isinstance(value, str):
            answer[said] = value
        else:
            answer[said] = (
                round(value * 1000) if "float" in _TYPES[name] and value else int(value or 0)
            )
    return answer
