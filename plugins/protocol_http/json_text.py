"""JSON in requests and responses: strict, and large bodies in steps.

What nests too deeply for the interpreter's stack, some hundred levels, is refused like what is malformed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any, Final, NoReturn, TypeGuard, cast

from tidelog.plugins.protocol_http.messages import HttpProblem

ELEMENTS_PER_STEP: Final = 32


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
encode_text: Final = _encoder.encode
"""Return a value as compact JSON text."""


def encode(value: object) -> bytes:
    """Return a value as compact JSON."""
    return _encoder.encode(value).encode()


def decode(data: bytes, what: str = "the body") -> Any:
    """Return the value of a JSON text.

    Raises:
        HttpProblem: it is malformed.
    """
    try:
        return _decoder.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise _malformed(what, error) from error


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value of JSON is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value of JSON is an object."""
    return isinstance(value, dict)


def decode_object(data: bytes) -> dict[str, Any]:
    """Return the value of a JSON text that is an object, empty without any text; raises as `decode`."""
    value: object = decode(data) if data.strip() else {}
    if not is_object(value):
        raise HttpProblem(422, "the body is not a JSON object")
    return value


def decode_in_steps(data: bytes, long: str) -> Generator[None, None, dict[str, Any]]:
    """Return the value of a JSON text that is an object; the array of its member `long` is read in steps.

    Raises:
        HttpProblem: it is malformed, or no object.
    """
    try:
        return (yield from _object_in_steps(data.decode(), long))
    except StopIteration as error:
        raise _malformed("the body", ValueError(f"no value at character {error.value}")) from error
    except (ValueError, RecursionError) as error:
        raise _malformed("the body", error) from error


def _object_in_steps(text: str, long: str) -> Generator[None, None, dict[str, Any]]:
    found: dict[str, Any] = {}
    position = _after(text, _skip(text, 0), "{")
    if text[position : position + 1] == "}":
        position += 1
    else:
        while True:
            name, position = _value(text, position)
            if not isinstance(name, str):
                raise ValueError("a name is not a string")
            position = _after(text, _skip(text, position), ":")
            if name == long and text[position : position + 1] == "[":
                found[name], position = yield from _array_in_steps(text, position + 1)
            else:
                found[name], position = _value(text, position)
            position = _skip(text, position)
            if text[position : position + 1] != ",":
                break
            position = _skip(text, position + 1)
        position = _after(text, position, "}")
    if _skip(text, position) != len(text):
        raise ValueError("there is more behind the object")
    return found


def _array_in_steps(text: str, position: int) -> Generator[None, None, tuple[list[Any], int]]:
    elements: list[Any] = []
    position = _skip(text, position)
    if text[position : position + 1] == "]":
        return elements, position + 1
    while True:
        element, position = _value(text, position)
        elements.append(element)
        if len(elements) % ELEMENTS_PER_STEP == 0:
            yield
        # Nearly always there is no whitespace, and a look at it takes longer than this.
        following = text[position : position + 1]
        if following != ",":
            position = _skip(text, position)
            following = text[position : position + 1]
        if following == "]":
            return elements, position + 1
        if following != ",":
            raise ValueError(f"neither , nor ] at character {position}")
        position += 1
        if text[position : position + 1] in " \t\n\r":
            position = _skip(text, position)


def _value(text: str, position: int) -> tuple[Any, int]:
    try:
        return cast("tuple[Any, int]", _decoder.scan_once(text, position))  # type: ignore[attr-defined]
    except StopIteration:
        raise ValueError(f"no value at character {position}") from None


def _skip(text: str, position: int) -> int:
    found = _WHITESPACE.match(text, position)
    return position if found is None else found.end()


def _after(text: str, position: int, mark: str) -> int:
    """Return the position of what follows a mark."""
    if text[position : position + 1] != mark:
        raise ValueError(f"no {mark} at character {position}")
    return _skip(text, position + 1)


def _malformed(what: str, error: Exception) -> HttpProblem:
    reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)[:200]
    return HttpProblem(400, f"{what} is malformed JSON: {reason}")
