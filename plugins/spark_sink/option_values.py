"""Options of the format `tidelog`: names, of which Spark does not distinguish case, and values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from tidelog.kernel.errors import TidelogError

T = TypeVar("T")

MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1


class InvalidOption(TidelogError, ValueError):
    """An option is unknown, missing or has a wrong value; the message names it and what it may be."""


@attrs.frozen
class OptionValues:
    """Options by their documented names."""

    values: Mapping[str, str]

    @classmethod
    def known(
        cls, given: Mapping[str, str], names: Sequence[str], instead: Mapping[str, str]
    ) -> OptionValues:
        """Return the options in the spelling of `names`; `instead` has advice for some others.

        Raises:
            InvalidOption: there is no such option.
        """
        spelling = {name.lower(): name for name in names}
        values: dict[str, str] = {}
        for name, value in given.items():
            lower = name.lower()
            if lower not in spelling:
                if lower in instead:
                    raise InvalidOption(f"the option {name} has no meaning here: {instead[lower]}")
                near = difflib.get_close_matches(lower, spelling, n=1, cutoff=0.0)[0]
                raise InvalidOption(f"there is no option {name}; the nearest one is {spelling[near]}")
            values[spelling[lower]] = value
        return cls(values)

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
        value = int(text) if re.fullmatch(r"\d{1,19}", text) else least - 1
        if not least <= value <= most:
            raise ValueError(f"a number from {least} to {most}")
        return value

    return parse


def seconds(text: str) -> float:
    """Parse milliseconds above 0 into seconds."""
    return number(1)(text) / 1000


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
