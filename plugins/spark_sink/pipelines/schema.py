"""Spark's text forms of schemas and of lists of columns, checked without Spark.

Spark parses them in its JVM. A mistake that shows only there would show seconds after the broker has started.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.kernel.config.types import nearest_name

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)+)`|(?P<text>'[^']*'|\"[^\"]*\")|(?P<mark>[<>(),:]))"
)
_PLAIN_TYPES: Final = (
    *("BOOLEAN", "BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT"),
    *("FLOAT", "REAL", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
    *("STRING", "BINARY", "VARIANT"),
)
_NUMBERS: Final = {"DECIMAL": (0, 2), "DEC": (0, 2), "NUMERIC": (0, 2), "CHAR": (1, 1), "VARCHAR": (1, 1)}
"""How many numbers in parentheses these types may have: at least, at most."""
_NESTED: Final = ("ARRAY", "MAP", "STRUCT")
_TYPES: Final = (*_PLAIN_TYPES, *_NUMBERS, *_NESTED)
_PAIRS: Final = {")": "(", "]": "["}


class _Token(NamedTuple):
    kind: str
    text: str


_END: Final = _Token("end", "the end")


def check_schema(text: str) -> tuple[str, ...]:
    """Return the names of the fields of a schema such as `station STRING, metres DOUBLE`.

    Raises:
        ValueError: it is malformed, or names a type that there is not; says where.
    """
    parser = _Parser(text)
    names = parser.fields(_END)
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise ValueError(f"has the field {twice} twice")
    return tuple(names)


def split_columns(text: str) -> tuple[str, ...]:
    """Return the items of a list of SQL expressions: what lies between commas outside of brackets and quotes.

    Raises:
        ValueError: an item is empty, or a bracket or a quote is not closed.
    """
    items, opened = [""], ""
    for piece in re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|.", text, re.DOTALL):
        if piece in ("'", '"', "`"):
            raise ValueError(f"has a {piece} that is not closed")
        if piece in _PAIRS:
            if not opened.endswith(_PAIRS[piece]):
                raise ValueError(f"has a {piece} that nothing opens")
            opened = opened[:-1]
        elif piece in _PAIRS.values():
            opened += piece
        if piece == "," and not opened:
            items.append("")
        else:
            items[-1] += piece
    if opened:
        raise ValueError(f"has a {opened[-1]} that is not closed")
    stripped = tuple(item.strip() for item in items)
    if "" in stripped:
        raise ValueError("has an empty item")
    return stripped


class _Parser:
    """A parser by recursive descent, one token ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)

    def fields(self, end: _Token) -> list[str]:
        names = [self._field()]
        while self._accept(","):
            names.append(self._field())
        if self._next != end:
            raise ValueError(f"has {self._next.text!r} where a comma or {end.text} is expected")
        self._advance()
        return names

    def _field(self) -> str:
        token = self._advance()
        if token.kind not in ("word", "quoted"):
            raise ValueError(f"has {token.text!r} where the name of a field is expected")
        self._accept(":")
        self._type(token.text)
        if self._accept("NOT"):
            self._expect("NULL")
        if self._accept("COMMENT") and (comment := self._advance()).kind != "text":
            raise ValueError(f"has a comment of {comment.text} that is not in quotes")
        return token.text

    def _type(self, field: str) -> None:
        token = self._advance()
        name = token.text.upper()
        if token.kind != "word":
            raise ValueError(f"has no type for {field}")
        if name in _NUMBERS:
            self._numbers(name)
        elif name in _NESTED:
            self._expect("<")
            self._nested(name, field)
        elif name not in _PLAIN_TYPES:
            near = nearest_name(name, _TYPES)
            hint = f"did you mean {near}?" if near else f"there are: {', '.join(_TYPES)}"
            raise ValueError(f"has the type {token.text} for {field}, which Spark does not know; {hint}")

    def _nested(self, name: str, field: str) -> None:
        if name == "STRUCT":
            self.fields(_Token("mark", ">"))
            return
        self._type(field)
        if name == "MAP":
            self._expect(",")
            self._type(field)
        self._expect(">")

    def _numbers(self, name: str) -> None:
        least, most = _NUMBERS[name]
        count = 0
        if self._accept("("):
            while count == 0 or self._accept(","):
                if not self._advance().text.isdecimal():
                    raise ValueError(f"has something other than numbers in the parentheses of {name}")
                count += 1
            self._expect(")")
        if not least <= count <= most:
            raise ValueError(f"has {name} with {count} numbers")

    def _accept(self, text: str) -> bool:
        if self._next.kind in ("word", "mark") and self._next.text.upper() == text:
            self._advance()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise ValueError(f"has {self._next.text!r} where {text} is expected")

    def _advance(self) -> _Token:
        token, self._next = self._next, next(self._tokens, _END)
        return token


def _tokens(text: str) -> Iterator[_Token]:
    position, stripped = 0, text.rstrip()
    while position < len(stripped):
        found = _TOKEN.match(stripped, position)
        if found is None:
            raise ValueError(f"cannot be read from {stripped[position:].strip()[:20]!r} on")
        assert found.lastgroup is not None  # noqa: S101 - for the type checkers
        yield _Token(found.lastgroup, found[found.lastgroup])
        position = found.end()
    yield _END
