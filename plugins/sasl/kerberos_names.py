"""Short names of Kerberos principals, by the rules of `sasl.kerberos.principal.to.local.rules`.

    DEFAULT                                        alice@REALM of the broker's realm → alice
    RULE:[1:$1@$0](.*@REALM)s/@.*//                alice@REALM → alice
    RULE:[2:$1](host)s/host/machine/g/U            host/a.example@REALM → MACHINE

`$0` is the realm, `$1` and `$2` are the parts of the name. The first rule that fits counts. Source: Kafka's
`KerberosShortNamer` and `KerberosRule`; regular expressions are RE2's, which take linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

MOST_PARTS: Final = 2
DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"RULE:\[(?P<parts>\d):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PLACE: Final = re.compile(r"\$(\d)")
_PRINCIPAL: Final = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")


class BadNameRule(ValueError):
    """A rule has another form; the text says which."""


class NoShortName(Exception):
    """No rule fits a principal, so that it is no user."""


class _Rule(NamedTuple):
    parts: int
    format: str
    fits: Callable[[str], object]
    replace: Callable[[str], str]


class ShortNames:
    """Rules, in their order; `realm` is that of the broker's own principal."""

    def __init__(self, rules: Sequence[str], realm: str) -> None:
        """Parse the rules.

        Raises:
            BadNameRule: one has another form.
        """
        self._realm = realm
        self._rules = [None if rule.strip() == DEFAULT else _parsed(rule.strip()) for rule in rules]

    def short_name(self, principal: str) -> str:
        """Return the name of the user that a principal is.

        Raises:
            NoShortName: it is none.
        """
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            raise NoShortName(f"{principal!r} is no name/host@REALM")
        names, realm = [name for name in match.groups()[:MOST_PARTS] if name is not None], match[3]
        if realm is None and len(names) == 1:
            return principal
        for rule in self._rules:
            if rule is None:
                if realm == self._realm:
                    return names[0]
            elif rule.parts == len(names):
                built = _PLACE.sub(
                    lambda place: [realm or "", *names, "", ""][int(place[1]) % 4], rule.format
                )
                if rule.fits(built):
                    return _checked(rule.replace(built), principal)
        raise NoShortName(f"no rule of sasl.kerberos.principal.to.local.rules fits {principal!r}")


def _checked(name: str, principal: str) -> str:
    if not name or "/" in name or "@" in name:
        raise NoShortName(f"the rules make {name!r} of {principal!r}, which has / or @ or is empty")
    return name


def _parsed(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None or int(match["parts"]) not in range(1, MOST_PARTS + 1):
        raise BadNameRule(f"{text!r} is neither DEFAULT nor RULE:[1:$1@$0](REGEXP)s/FROM/TO/")
    if any(int(place) > int(match["parts"]) for place in _PLACE.findall(match["format"])):
        raise BadNameRule(f"{text!r} names a part of the principal that it has not")
    # It has no types.
    re2: Any = import_module("re2")
    try:
        fits: Callable[[str], object] = re2.compile(match["match"]).fullmatch if match["match"] else bool
        pattern = re2.compile(match["from"]) if match["from"] else None
    except re2.error as error:
        raise BadNameRule(f"{text!r} has a regular expression that is none: {error}") from error
    template, case = _PLACE.sub(r"\\\1", match["to"] or ""), match["case"]

    def replace(built: str) -> str:
        replaced = built if pattern is None else str(pattern.sub(template, built, 0 if match["all"] else 1))
        return replaced.lower() if case == "L" else replaced.upper() if case == "U" else replaced

    return _Rule(int(match["parts"]), match["format"], fits, replace)
