"""Ready-made codecs: how values of one type become bodies and come back.

q = hf.queue("orders", codec=holdfast.codecs.json(Order))
q.send(Order(7, "tea"))
q.receive().value            # Order(7, "tea")
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidArgument

T = TypeVar("T")


class MsgspecCodec(Generic[T]):
    """By msgspec, as JSON or MessagePack; decoding checks the type."""

    def __init__(self, encoder: Any, decoder: Any) -> None:
        self._encode = encoder.encode
        self._decode = decoder.decode

    def encode(self, value: T, /) -> bytes:
        return self._encode(value)  # type: ignore[no-any-return]

    def decode(self, body: bytes, /) -> T:
        return self._decode(body)  # type: ignore[no-any-return]


class PydanticCodec(Generic[T]):
    """By a pydantic model's own JSON."""

    def __init__(self, model: type[T]) -> None:
        if not hasattr(model, "model_validate_json"):
            raise InvalidArgument(f"{model.__name__} is no pydantic model; use codecs.json for it")
        self._model: Any = model

    def encode(self, value: T, /) -> bytes:
        return self._model.model_validate(value).model_dump_json().encode()  # type: ignore[no-any-return]

    def decode(self, body: bytes, /) -> T:
        return self._model.model_validate_json(body)  # type: ignore[no-any-return]


def json(type_: type[T]) -> MsgspecCodec[T]:
    """JSON for a dataclass, msgspec.Struct, TypedDict or any other type msgspec knows."""
    return MsgspecCodec(msgspec.json.Encoder(), msgspec.json.Decoder(type_))


def msgpack(type_: type[T]) -> MsgspecCodec[T]:
    """The same as MessagePack: smaller and faster, not readable by eye."""
    return MsgspecCodec(msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(type_))


def pydantic(model: type[T]) -> PydanticCodec[T]:
    """JSON for a pydantic model."""
    return PydanticCodec(model)
