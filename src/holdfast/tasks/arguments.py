"""How the arguments and the result of one function travel: as JSON, checked against its annotations.

A struct is made from the signature, so that binding arguments to parameters is msgspec's own constructor,
and missing, unknown or wrong ones are found out when sending. What comes out at the other end went through
the same types. Rejected: pickle, which runs whatever it is sent; and positional arguments on the wire, which
break when a parameter is added.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from holdfast.errors import Corrupt, InvalidArgument

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _to_wire(value: Any) -> Any:
    """For what msgspec does not know: pydantic models, and what only refines a plain type."""
    plain: Any
    for plain in (str, bytes, int, float):
        if isinstance(value, plain):
            return plain(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__} has no JSON form")


def _from_wire(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"a {kind.__name__} cannot be read from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_to_wire)


def encode(value: Any) -> bytes:
    """Any value as JSON. Raises InvalidArgument where it has no such form."""
    try:
        return _encoder.encode(value)
    except (TypeError, NotImplementedError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"{type(value).__name__} cannot be sent: {error}") from error


class Shape:
    """Values of one type, there and back."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind, dec_hook=_from_wire)

    def encode(self, value: Any) -> bytes:
        """Raises InvalidArgument where it is not of the type."""
        data = encode(value)
        try:
            self._decoder.decode(data)
        except Exception as error:  # a hook may raise anything
            raise InvalidArgument(str(error)) from error
        return data

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        """Raises Corrupt where it is not of the type."""
        try:
            return self._decoder.decode(data)
        except Exception as error:
            raise Corrupt(str(error)) from error


class Arguments:
    """Those of one function."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._signature = inspect.signature(function)
        try:
            hints = get_type_hints(function, include_extras=True)
        except NameError as error:
            raise InvalidArgument(
                f"the annotations of task {name!r} cannot be read: {error}; types of a task must be "
                "importable where it is defined, not only under TYPE_CHECKING"
            ) from error
        self.result = Shape(hints.get("return", Any))
        parameters = [
            p.replace(annotation=hints.get(p.name, p.empty))
            for p in self._signature.parameters.values()
        ]
        # With the types themselves, also where annotations are text: it is shown to users.
        returned = hints.get("return", inspect.Signature.empty)
        self._signature = inspect.Signature(
            parameters, return_annotation=None if returned is type(None) else returned
        )
        self._positional = [p.name for p in parameters if p.kind in _POSITIONAL]
        self._only_positional = {
            p.name: p.default for p in parameters if p.kind is inspect.Parameter.POSITIONAL_ONLY
        }
        self._named = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
        self._others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
        required, optional = [], []
        for p in parameters:
            kind: Any = hints.get(p.name, Any)
            if p.kind is p.VAR_POSITIONAL:
                kind = list[kind]
            elif p.kind is p.VAR_KEYWORD:
                kind = dict[str, kind]
            elif p.default is p.empty:
                required.append((p.name, kind))
                continue
            optional.append((p.name, kind | msgspec.UnsetType, msgspec.UNSET))
        # In the function's own order where that is possible, so that a plain call needs no sorting.
        order = {p.name: i for i, p in enumerate(parameters)}
        self._straight = not (self._rest or self._others or self._named)
        fields: list[Any] = sorted([*required, *optional], key=lambda f: order[f[0]])
        mixed = any(len(a) > len(b) for a, b in itertools.pairwise(fields))
        self._struct = msgspec.defstruct(
            "Arguments", fields, kw_only=mixed, omit_defaults=True, forbid_unknown_fields=True
        )
        self._straight = self._straight and not mixed
        try:
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_from_wire)
        except TypeError as error:
            raise InvalidArgument(
                f"the arguments of task {name!r} cannot be sent: {error}"
            ) from error

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The JSON of a call's arguments. Raises InvalidArgument where the function would not take them."""
        try:
            if self._straight:
                data = _encoder.encode(self._struct(*args, **kwargs))
            else:
                data = _encoder.encode(self._struct(**self._sorted(args, kwargs)))
            self._decoder.decode(data)
        except Exception as error:
            raise InvalidArgument(
                f"task {self._name!r} cannot be called so: {_said(error)}; "
                f"it takes {self._signature}"
            ) from error
        return data

    def _sorted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def bind_after(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The same without the first one, which the step before it in a flow will supply."""
        if not self._positional and self._rest is None:
            raise InvalidArgument(
                f"task {self._name!r} takes no argument to receive what comes before it; give it one, or "
                "use .alone()"
            )
        try:
            known = dict(self._signature.bind_partial(None, *args, **kwargs).arguments)
        except TypeError as error:
            raise InvalidArgument(
                f"task {self._name!r} cannot follow another so: {_said(error)}; it takes {self._signature}"
            ) from error
        known.pop(self.taker.lstrip("*"))
        return encode(known)

    @property
    def taker(self) -> str:
        """The parameter that takes what comes before it in a flow; with a star if it takes any number."""
        return self._positional[0] if self._positional else f"*{self._rest}"

    def unbind(self, data: bytes | msgspec.Raw) -> tuple[list[Any], dict[str, Any]]:
        """Arguments to call the function with. Raises Corrupt where they are not what it takes."""
        try:
            found = self._decoder.decode(data)
        except Exception as error:
            raise Corrupt(f"{_said(error)}; it takes {self._signature}") from error
        args: list[Any] = []
        named: dict[str, Any] = {}
        for name in self._positional:
            value = getattr(found, name)
            if value is msgspec.UNSET:
                if name in self._only_positional:
                    args.append(self._only_positional[name])
                    continue
                break
            args.append(value)
        else:
            if self._rest and (rest := getattr(found, self._rest)) is not msgspec.UNSET:
                args += rest
        for name in (*self._positional[len(args) :], *self._named):
            value = getattr(found, name)
            if value is not msgspec.UNSET:
                named[name] = value
        if self._others and (others := getattr(found, self._others)) is not msgspec.UNSET:
            named |= others
        return args, named


def _said(error: Exception) -> str:
    return str(error).replace("Object missing", "missing").replace("`Arguments`", "it")
