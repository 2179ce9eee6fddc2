"""Lines of JAAS, in which Kafka's configuration has users and passwords (KIP-85).

org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

MAX_CHARACTERS: Final = 1024 * 1024
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<word>[\w.$:/@+-]+) | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""| (?P<sign>[=;]) )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}


class BadJaas(ValueError):
    """The text is no line of JAAS; the message has nothing of what may be a password."""


@attrs.frozen
class JaasEntry:
    """A login module, by the name of its class in Java, and its options, which may be secrets."""

    module: str
    options: Mapping[str, str] = attrs.field(repr=False)

    @property
    def module_name(self) -> str:
        """The name of the class without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> JaasEntry:
    """Parse a line with one login module.

    Raises:
        BadJaas: it has another form; says where.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadJaas(f"has more than {MAX_CHARACTERS} characters")
    tokens = _tokens(text)
    match tokens:
        case [("word", module), ("word", flag), *options, ("sign", ";")] if flag.lower() in _FLAGS:
            return JaasEntry(module, _options(options))
        case [("word", _), ("word", flag), *_] if flag.lower() not in _FLAGS:
            raise BadJaas("has none of required, requisite, sufficient, optional behind its login module")
        case _:
            raise BadJaas('is not of the form MODULE required NAME="VALUE" ...; (with the semicolon)')


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise BadJaas(f"cannot be read from character {position + 1} on: a quote or a value is missing")
        found.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found


def _options(tokens: list[tuple[str, str]]) -> Mapping[str, str]:
    options: dict[str, str] = {}
    for number, start in enumerate(range(0, len(tokens), 3), 1):
        # Options by their place: behind a quote that is not escaped, their names are parts of a password.
        match tokens[start : start + 3]:
            case [("word", name), ("sign", "="), (kind, value)] if kind != "sign":
                if name in options:
                    raise BadJaas(f"has an option twice, the second time as option {number}")
                options[name] = value if kind == "word" else _ESCAPED.sub(_unescaped, value)
            case [("word", _), *_]:
                raise BadJaas(f'has an option {number} without ="VALUE"')
            case _:
                raise BadJaas('has something else than NAME="VALUE" between its options')
    return options


def _unescaped(match: re.Match[str]) -> str:
    return _CONTROLS.get(match[1], match[1])
