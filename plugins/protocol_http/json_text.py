"""JSON in requests and responses: strict, and large bodies in steps.

What nests too deeply for the interpreter's stack, some hundred levels, is refused like what is malformed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, NoReturn, TypeGuard, TypeVar, cast

from tidelog.plugins.protocol_http.messages import HttpProblem

T = TypeVar("T")

ELEMENTS_PER_STEP: Final = 32


class Member(NamedTuple):
    """A member of an object: its value, and the text of it as it was sent."""

    value: Any
    text: str


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


def decode_in_steps(
    data: bytes, long: str, read: Callable[[str, int], tuple[object, int]]
) -> Generator[None, None, dict[str, Any]]:
    """Return the value of a JSON text that is an object; the array of its member `long` is read in steps.

    `read` returns what becomes of the element at a position, which is no whitespace, and the position behind
    it; it may raise ValueError.

    Raises:
        HttpProblem: it is malformed, or no object; or `read` raises it.
    """
    try:
        return (yield from _object_in_steps(data.decode(), long, read))
    except (ValueError, RecursionError) as error:
        raise _malformed("the body", error) from error


def _object_in_steps(
    text: str, long: str, read: Callable[[str, int], tuple[object, int]]
) -> Generator[None, None, dict[str, Any]]:
    found: dict[str, Any] = {}
    name, position = _next_name(text, _skip(text, 0), "{")
    while name is not None:
        if name == long and text[position : position + 1] == "[":
            found[name], position = yield from _array_in_steps(text, position + 1, read)
        else:
            found[name], position = value_at(text, position)
        name, position = _next_name(text, _skip(text, position), ",")
    if _skip(text, position) != len(text):
        raise ValueError("there is more behind the object")
    return found


def members_at(text: str, position: int) -> tuple[dict[str, Member], int]:
    """Return the members of the object at a position, and the position behind it.

    Raises:
        ValueError: there is none.
    """
    found: dict[str, Member] = {}
    name, start = _next_name(text, position, "{")
    while name is not None:
        value, end = value_at(text, start)
        found[name] = Member(value, text[start:end])
        name, start = _next_name(text, _skip(text, end), ",")
    return found, start


def _next_name(text: str, position: int, mark: str) -> tuple[str | None, int]:
    """Return the name of an object's next member, behind a mark, and the position of its value.

    At the end of the object that is None, and the position behind it.
    """
    found = text[position : position + 1]
    if found == "}" and mark == ",":
        return None, position + 1
    if found != mark:
        raise ValueError(f"no {mark} at character {position}")
    position = _skip(text, position + 1)
    if mark == "{" and text[position : position + 1] == "}":
        return None, position + 1
    name, position = value_at(text, position)
    if not isinstance(name, str):
        raise ValueError("a name is not a string")
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        raise ValueError(f"no : at character {position}")
    return name, _skip(text, position + 1)


def _array_in_steps(
    text: str, position: int, read: Callable[[str, int], tuple[T, int]]
) -> Generator[None, None, tuple[list[T], int]]:
    elements: list[T] = []
    position = _skip(text, position)
    if text[position : position + 1] == "]":
        return elements, position + 1
    while True:
        element, position = read(text, position)
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


def value_at(text: str, position: int) -> tuple[Any, int]:
    """Return the value at a position, and the position behind it.

    Raises:
        ValueError: there is none.
    """
    try:
        return cast("tuple[Any, int]", _decoder.scan_once(text, position))  # type: ignore[attr-defined]
    except StopIteration:
        raise ValueError(f"no value at character {position}") from None


def _skip(text: str, position: int) -> int:
    found = _WHITESPACE.match(text, position)
    return position if found is None else found.end()


def _malformed(what: str, error: Exception) -> HttpProblem:
    reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)[:200]
    return HttpProblem(400, f"{what} is malformed JSON: {reason}")
