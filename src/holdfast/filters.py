"""Which published messages a subscription wants, by their attributes.

    from holdfast import filters as f
    f.equals("kind", "order") & (f.prefix("sku", "A-") | f.exists("vip"))

A filter is data: it travels as JSON, and the engine decides by it (`lua/shared/filter.lua`) when
something is published. `Filter.matches` decides the same in Python; tests hold both to one set of
vectors. Absent attributes match nothing but `exists(name, False)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast import names
from holdfast.errors import InvalidArgument

MAX_TERMS = 100
MAX_DEPTH = 8

_TESTS = ("equals", "in", "prefix", "exists")


class Filter:
    """Make one with equals, any_of, prefix or exists, join them with & and |, or use from_json."""

    __slots__ = ("_form",)

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form = _checked(form, [0], 0)

    @classmethod
    def from_json(cls, text: bytes | str) -> Filter:
        """Raises InvalidArgument, saying what is wrong with it."""
        try:
            form = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"a filter must be JSON: {error}") from None
        return cls(form)

    def to_json(self) -> bytes:
        return msgspec.json.encode(self._form)

    def matches(self, attributes: Mapping[str, str]) -> bool:
        return _matches(self._form, attributes)

    def __and__(self, other: Filter) -> Filter:
        return Filter({"all": [*self._parts("all"), *other._parts("all")]})

    def __or__(self, other: Filter) -> Filter:
        return Filter({"any": [*self._parts("any"), *other._parts("any")]})

    def _parts(self, joined: str) -> list[Any]:
        return list(self._form[joined]) if joined in self._form else [self._form]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self._form == other._form

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"Filter({self.to_json().decode()})"


def equals(attribute: str, value: str) -> Filter:
    """The attribute is there and is just this."""
    return Filter({"attribute": attribute, "equals": value})


def any_of(attribute: str, values: Iterable[str]) -> Filter:
    """The attribute is one of these."""
    return Filter({"attribute": attribute, "in": list(values)})


def prefix(attribute: str, value: str) -> Filter:
    """The attribute starts so."""
    return Filter({"attribute": attribute, "prefix": value})


def exists(attribute: str, there: bool = True) -> Filter:
    """The attribute is there, whatever it is; or is not."""
    return Filter({"attribute": attribute, "exists": there})


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} in a filter must be text, not {value!r}")
    return value


def _checked(form: object, terms: list[int], depth: int) -> dict[str, Any]:
    """The form with nothing in it but what a filter has."""
    if not isinstance(form, Mapping):
        raise InvalidArgument(f"a filter must be an object, not {form!r}")
    terms[0] += 1
    if terms[0] > MAX_TERMS or depth > MAX_DEPTH:
        raise InvalidArgument(
            f"a filter may have {MAX_TERMS} parts, {MAX_DEPTH} deep; this one is larger"
        )
    keys = set(form)
    for joined in ("all", "any"):
        if keys == {joined}:
            if not isinstance(form[joined], list):
                raise InvalidArgument(f"{joined!r} in a filter must be a list of filters")
            return {joined: [_checked(part, terms, depth + 1) for part in form[joined]]}
    test = next((t for t in _TESTS if keys == {"attribute", t}), None)
    if test is None:
        raise InvalidArgument(
            f"a filter must be all, any, or an attribute with one of {', '.join(_TESTS)}; "
            f"this one has {', '.join(sorted(map(str, keys))) or 'nothing'}"
        )
    name, value = names.check(form["attribute"], "an attribute's name"), form[test]
    if test == "in":
        if not isinstance(value, list):
            raise InvalidArgument("'in' in a filter must be a list of texts")
        return {"attribute": name, "in": [_text(one, "'in'") for one in value]}
    if test == "exists":
        if not isinstance(value, bool):
            raise InvalidArgument(f"'exists' in a filter must be true or false, not {value!r}")
        return {"attribute": name, "exists": value}
    return {"attribute": name, test: _text(value, repr(test))}


def _matches(form: Mapping[str, Any], attributes: Mapping[str, str]) -> bool:
    if "all" in form:
        return all(_matches(part, attributes) for part in form["all"])
    if "any" in form:
        return any(_matches(part, attributes) for part in form["any"])
    value = attributes.get(form["attribute"])
    if "exists" in form:
        return (value is not None) is form["exists"]
    if value is None:
        return False
    if "equals" in form:
        return bool(value == form["equals"])
    if "prefix" in form:
        return value.startswith(str(form["prefix"]))
    return value in list(form["in"])
