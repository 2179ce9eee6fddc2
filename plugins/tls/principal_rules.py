"""Principals of certificates: the rules of `ssl.principal.mapping.rules` (KIP-371).

Source: Kafka's `SslPrincipalMapper`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from tidelog.plugins.keystores.stores import StoreError

_DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)|DEFAULT")
_REFERENCE: Final = re.compile(r"\$(\d)")
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class _Rule(NamedTuple):
    pattern: Any
    replacement: str
    case: str


class PrincipalRules:
    """Rules in the order in which they are tried."""

    def __init__(self, rules: tuple[_Rule, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Parse rules between commas.

        Raises:
            StoreError: a part of the text is no rule.
        """
        rules: list[_Rule] = []
        rest = text.strip()
        while rest:
            found = _RULE.match(rest)
            if found is None or rest[found.end() :].lstrip()[:1] not in ("", ","):
                raise StoreError(f"{rest!r} is neither DEFAULT nor of the form RULE:pattern/replacement/[LU]")
            rules.append(_rule(found))
            rest = rest[found.end() :].lstrip().removeprefix(",").lstrip()
        return cls(tuple(rules))

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the name of the principal, None if no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            found = rule.pattern.fullmatch(distinguished_name)
            if found is not None:
                return _CASES[rule.case](_filled_in(rule.replacement, found))
        return None


def _filled_in(replacement: str, found: Any) -> str:
    return _REFERENCE.sub(lambda reference: found[int(reference[1])] or "", replacement)


def _rule(found: re.Match[str]) -> _Rule:
    if found[0] == _DEFAULT:
        return _Rule(None, "", "")
    # The names are those of peers: an engine that backtracks would let them hold a thread.
    re2 = import_module("re2")
    try:
        pattern = re2.compile(found[1].replace("\\/", "/"))
    except re2.error as error:
        raise StoreError(f"the pattern of {found[0]!r} is no regular expression: {error}") from error
    highest = max((int(number) for number in _REFERENCE.findall(found[2])), default=0)
    if highest > pattern.groups:
        raise StoreError(f"the replacement of {found[0]!r} refers to ${highest}, which its pattern has not")
    return _Rule(pattern, found[2].replace("\\/", "/"), found[3])
