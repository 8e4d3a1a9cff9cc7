"""Bodies of a type of your own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec
import pydantic
import pytest

import holdfast
from holdfast import Client, Corrupt, InvalidArgument, codecs


@dataclass
class Order:
    number: int
    at: datetime


class Item(msgspec.Struct):
    name: str
    data: bytes


class Person(pydantic.BaseModel):
    name: str
    age: int


@pytest.fixture
def hf(url: str) -> Iterator[Client]:
    with holdfast.connect(url) as client:
        yield client


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (codecs.json(Order), Order(7, datetime(2026, 1, 2, 3, 4))),
        (codecs.msgpack(Item), Item("tea", b"\x00\xff")),
        (codecs.pydantic(Person), Person(name="A", age=3)),
    ],
)
def test_values_come_back_as_they_were(
    hf: Client, codec: holdfast.Codec[object], value: object
) -> None:
    q = hf.queue(f"codec-{secrets.token_hex(4)}", codec=codec)
    mid = q.send(value)
    waiting = q.get(mid)
    assert waiting is not None
    assert waiting.value == value
    d = q.receive()
    assert d is not None
    assert d.value == value


def test_a_body_of_another_type_is_told_apart_and_not_lost(hf: Client) -> None:
    q = hf.queue(f"codec-{secrets.token_hex(4)}", codec=codecs.json(Order))
    q.send(b"not an order")
    d = q.receive()
    assert d is not None
    with pytest.raises(Corrupt, match="the codec cannot decode the body of"):
        _ = d.value
    with pytest.raises(Corrupt, match="is not JSON"):
        d.json()
    assert d.body == b"not an order"


def test_what_cannot_be_encoded_is_refused(hf: Client) -> None:
    q = hf.queue("codec")
    with pytest.raises(InvalidArgument, match="cannot encode a body of type object"):
        q.send(object())
    with pytest.raises(InvalidArgument, match="Order is no pydantic model"):
        codecs.pydantic(Order)


def test_text_that_is_not_text_is_told() -> None:
    broken = holdfast.Message(b"\0" * 18 + b"\xff", 0, "ready")
    with pytest.raises(Corrupt, match="the body of 0-0 is not text"):
        _ = broken.text
