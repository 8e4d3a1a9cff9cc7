"""Arguments and results: what travels, and what is refused before anything is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Corrupt, InvalidArgument
from holdfast.tasks.arguments import Arguments


@dataclass
class Point:
    x: int
    y: int = 0


class Colour(Enum):
    RED = "red"


class Order(msgspec.Struct):
    id: int
    lines: list[Point]


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


def everything(
    a: int,
    b: str,
    c: bytes,
    d: datetime,
    e: Point,
    f: Order,
    g: Person,
    h: Colour,
    i: UUID,
    j: Decimal,
    k: dict[int, list[date]],
    l: timedelta | None = None,  # noqa: E741
    *,
    m: tuple[int, str] = (1, "x"),
) -> None: ...


EVERYTHING: tuple[Any, ...] = (
    1,
    "ü",
    b"\x00\xff",
    datetime(2026, 11, 16, tzinfo=UTC),
    Point(1, 2),
    Order(7, [Point(3)]),
    Person(name="Ada", age=36),
    Colour.RED,
    UUID(int=5),
    Decimal("1.10"),
    {3: [date(2026, 1, 1)]},
)


def test_types_of_all_kinds_arrive_as_they_were() -> None:
    arguments = Arguments(everything, "everything")
    args, kwargs = arguments.unbind(arguments.bind(EVERYTHING, {"m": (2, "y")}))
    assert tuple(args) == EVERYTHING
    assert kwargs == {"m": (2, "y")}


def test_defaults_do_not_travel() -> None:
    def f(a: int, b: int = 5, *, c: int = 6) -> None: ...

    arguments = Arguments(f, "f")
    assert arguments.bind((1,), {}) == b'{"a":1}'
    assert arguments.unbind(b'{"a":1}') == ([1], {})
    assert arguments.unbind(b'{"a":1,"c":7}') == ([1], {"c": 7})


def test_any_number_of_arguments_can_be_taken() -> None:
    def f(a: int, /, b: int = 2, *rest: int, **others: str) -> None: ...

    arguments = Arguments(f, "f")
    for args, kwargs in (((1,), {}), ((1, 2, 3, 4), {"z": "y"}), ((1,), {"b": 5, "q": "r"})):
        got_args, got_kwargs = arguments.unbind(arguments.bind(args, kwargs))
        assert _called(f, got_args, got_kwargs) == _called(f, args, kwargs)


def _called(function: Any, args: Any, kwargs: Any) -> Any:
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "Missing required argument 'user_id'"),
        ((1, "a", 3), {}, "Extra positional"),
        ((1,), {"colour": 1}, "Unexpected keyword argument 'colour'"),
        (("one",), {}, "Expected `int`, got `str` - at `$.user_id`"),
        ((1, object()), {}, "object"),
        ((1, math.nan), {}, "Expected `str`"),
    ],
)
def test_what_the_function_would_not_take_is_refused(args: Any, kwargs: Any, said: str) -> None:
    def welcome(user_id: int, template: str = "hi") -> str:
        return template

    with pytest.raises(InvalidArgument) as refused:
        Arguments(welcome, "welcome").bind(args, kwargs)
    assert said in str(refused.value)
    assert "(user_id: int, template: str = 'hi')" in str(refused.value)


def test_a_pydantic_model_is_checked_by_its_own_rules() -> None:
    def f(who: Person) -> None: ...

    arguments = Arguments(f, "f")
    with pytest.raises(InvalidArgument):
        arguments.bind((Person.model_construct(name="x", age=-1),), {})
    with pytest.raises(Corrupt):
        arguments.unbind(b'{"who":{"name":"x","age":-1}}')


def test_a_float_that_json_cannot_carry_is_refused_when_sent() -> None:
    def f(x: float) -> None: ...

    with pytest.raises(InvalidArgument):
        Arguments(f, "f").bind((math.nan,), {})


def test_arguments_of_another_signature_are_corrupt() -> None:
    def f(a: int) -> None: ...

    for data in (b"{}", b'{"a":"x"}', b'{"a":1,"b":2}', b"[1]", b"no"):
        with pytest.raises(Corrupt):
            Arguments(f, "f").unbind(data)


def test_annotations_that_cannot_be_read_are_told() -> None:
    def f(a: NotThere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidArgument, match="NotThere"):
        Arguments(f, "f")


def test_a_type_without_a_json_form_is_told_when_sent() -> None:
    def f(a: object) -> None: ...

    with pytest.raises(InvalidArgument, match="no JSON form"):
        Arguments(f, "f").bind((object(),), {})


def test_results_are_checked_against_the_annotation() -> None:
    def f() -> list[Point]:
        return []

    result = Arguments(f, "f").result
    assert result.decode(result.encode([Point(1)])) == [Point(1)]
    with pytest.raises(InvalidArgument):
        result.encode(["not a point"])
    with pytest.raises(Corrupt):
        result.decode(b'["not a point"]')


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_json, _json)
@pytest.mark.slow
def test_whatever_is_json_arrives_unchanged_where_nothing_is_annotated(a: Any, b: Any) -> None:
    def f(a, b=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        pass

    arguments = Arguments(f, "f")
    assert arguments.unbind(arguments.bind((a, b), {})) == ([a, b], {})
