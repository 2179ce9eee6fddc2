"""Options of the format `tidelog`: names, of which Spark does not distinguish case, and values."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import attrs

from tidelog.kernel.errors import TidelogError

T = TypeVar("T")

Parser: TypeAlias = Callable[[str], object]
"""Raises ValueError, whose text says what the value has to be."""

log = logging.getLogger(__name__)

MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1


class InvalidOption(TidelogError, ValueError):
    """An option is unknown, missing or has a wrong value; the message names it and what it may be."""


@attrs.frozen
class ClientKeys:
    """Options beside the documented ones: keys of Kafka's clients, in lower case with prefix.

    Attributes:
        without_effect: those that are accepted, with the parser of their values
        refused: those that are not, with the reason
        refused_prefixes: beginnings of further keys that are not
        passed_prefix: beginning of further keys that are, with any value
    """

    without_effect: Mapping[str, Parser]
    refused: Mapping[str, str]
    refused_prefixes: Mapping[str, str]
    passed_prefix: str | None = None

    def reason_to_refuse(self, name: str) -> str | None:
        """Return why a key is refused; None if it is not."""
        by_prefix = (reason for each, reason in self.refused_prefixes.items() if name.startswith(each))
        return self.refused.get(name) or next(by_prefix, None)


@attrs.frozen
class OptionValues:
    """Options by their documented names; those `without_effect` are not among the values."""

    values: Mapping[str, str]
    without_effect: tuple[str, ...] = ()

    @classmethod
    def known(cls, given: Mapping[str, str], names: Sequence[str], keys: ClientKeys) -> OptionValues:
        """Return the options in the spelling of `names`; `keys` are further ones of Kafka's clients.

        Raises:
            InvalidOption: there is no such option, it is refused, or it has no effect and a wrong value.
        """
        spelling = {name.lower(): name for name in names}
        values: dict[str, str] = {}
        without_effect: list[str] = []
        for name, value in given.items():
            lower = name.lower()
            if lower in spelling:
                values[spelling[lower]] = value
            elif keys.passed_prefix is not None and lower.startswith(keys.passed_prefix):
                values[lower] = value
            elif (parser := keys.without_effect.get(lower)) is not None:
                cls({lower: value}).read(lower, parser, None)
                without_effect.append(lower)
            elif (reason := keys.reason_to_refuse(lower)) is not None:
                raise InvalidOption(f"the option {name} is refused: {reason}")
            else:
                import difflib

                all_names = {**dict.fromkeys(keys.without_effect), **spelling}
                [near] = difflib.get_close_matches(lower, all_names, n=1, cutoff=0.0)
                raise InvalidOption(
                    f"there is no option {name}; the nearest one is {spelling.get(near, near)}"
                )
        return cls(values, tuple(sorted(without_effect)))

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return a parsed option.

        Raises:
            InvalidOption: `parse` raises ValueError, whose text says what the value has to be.
        """
        text = self.values.get(name)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            raise InvalidOption(f"the option {name} has to be {error}, not {text!r}") from None


def number(least: int, most: int = MOST_INT) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range."""

    def parse(text: str) -> int:
        value = int(text) if re.fullmatch(r"-?\d{1,19}", text) else least - 1
        if not least <= value <= most:
            raise ValueError(f"a number from {least} to {most}")
        return value

    return parse


def seconds(text: str) -> float:
    """Parse milliseconds above 0 into seconds."""
    return number(1)(text) / 1000


def pause(text: str) -> float:
    """Parse milliseconds, which may be 0, into seconds."""
    return number(0, MOST_LONG)(text) / 1000


def some_text(text: str) -> str:
    """Return a text that is not empty."""
    if not text:
        raise ValueError("a text that is not empty")
    return text


def boolean(text: str) -> bool:
    """Parse true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a parser of one of these words."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text.lower()

    return parse


def warn_of_options(without_effect: Iterable[str]) -> None:
    """Log one warning with all options that have no effect on a query; none without any."""
    if names := ", ".join(without_effect):
        log.warning("these options are accepted, and have no effect on this query: %s", names)
