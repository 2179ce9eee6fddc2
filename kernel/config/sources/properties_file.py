r"""Settings in Java's properties format, as Kafka's server.properties has them.

A line is `name=value`, `name: value` or `name value`; `#` and `!` begin comments; a backslash at the end of a
line joins the next one to it; `\t \n \r \f \uXXXX` and a backslash before any other character work as in
Java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.kernel.config.sources.settings import Origin, OriginKind, Setting

_NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<character>.))", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str, file: str, problems: list[str]) -> list[Setting]:
    """Return the settings in `text`; a name that is set twice goes to `problems`."""
    settings: list[Setting] = []
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        if name in lines:
            problems.append(f"{name} ({file}:{number}): is set twice, first in line {lines[name]}")
            continue
        lines[name] = number
        settings.append(Setting(name, value, Origin(OriginKind.FILE, f"{file}:{number}")))
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line, continuations joined, comments left out."""
    lines = iter(enumerate(re.split(r"\r\n|\r|\n", text), 1))
    for number, line in lines:
        statement = line.lstrip(" \t\f")
        if not statement or statement[0] in "#!":
            continue
        while _continues(statement):
            statement = statement[:-1] + next(lines, (0, ""))[1].lstrip(" \t\f")
        yield number, statement


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    name = _NAME.match(line)
    end = name.end() if name else 0
    separator = _SEPARATOR.match(line, end)
    return _unescape(line[:end]), _unescape(line[separator.end() if separator else end :])


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    code, character = escape["code"], escape["character"]
    return chr(int(code, 16)) if code else _NAMED.get(character, character)
