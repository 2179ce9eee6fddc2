"""`match` of a subscription to client metrics: which clients it is for (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config import ValueType
from tidelog.kernel.config.types import split_list
from tidelog.kernel.errors import InvalidRegularExpression

if TYPE_CHECKING:
    from tidelog.kernel.regexes import Regex

ATTRIBUTES: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class ClientMatch:
    """An attribute of a client, and the expression that the whole of its value has to match."""

    def __init__(self, attribute: str, expression: str) -> None:
        self.attribute = attribute
        self.expression = expression

    @cached_property
    def _regex(self) -> Regex:
        from tidelog.kernel.regexes import compile_regex

        return compile_regex(self.expression)

    def check(self) -> None:
        """Compile the expression.

        Raises:
            InvalidRegularExpression: it is malformed.
        """
        _ = self._regex

    async def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether the client is one of those."""
        from tidelog.kernel.regex_matching import matching

        # A client id may have 32 kB.
        return bool(await matching(self._regex, [attributes.get(self.attribute, "")]))

    def __str__(self) -> str:
        return f"{self.attribute}={self.expression}"


def client_matches() -> ValueType[tuple[ClientMatch, ...]]:
    """Return the type of `attribute=expression,attribute=expression`; all of them have to match."""
    return ValueType(
        "list",
        "attribute=expression pairs between commas",
        _parse,
        lambda matches: ",".join(map(str, matches)),
    )


def _parse(text: str) -> tuple[ClientMatch, ...]:
    matches: list[ClientMatch] = []
    for item in split_list(text):
        parts = [part.strip() for part in item.split("=")]
        if len(parts) != 2 or parts[0] not in ATTRIBUTES:
            raise ValueError(
                f"has {item!r}, which is no attribute=expression pair; attributes: {', '.join(ATTRIBUTES)}"
            )
        match = ClientMatch(*parts)
        try:
            match.check()
        except InvalidRegularExpression as error:
            raise ValueError(f"has {item!r}: {error}") from None
        matches.append(match)
    return tuple(matches)
