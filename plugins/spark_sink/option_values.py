"""Options of the format `tidelog`: names, of which Spark does not distinguish case, and values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import attrs

from tidelog.kernel.errors import TidelogError

T = TypeVar("T")


class InvalidWriterOption(TidelogError, ValueError):
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
            InvalidWriterOption: there is no such option.
        """
        spelling = {name.lower(): name for name in names}
        values: dict[str, str] = {}
        for name, value in given.items():
            lower = name.lower()
            if lower in instead:
                raise InvalidWriterOption(f"the option {name} has no meaning here: {instead[lower]}")
            if lower not in spelling:
                near = difflib.get_close_matches(lower, spelling, n=1, cutoff=0.0)[0]
                raise InvalidWriterOption(f"there is no option {name}; the nearest one is {spelling[near]}")
            values[spelling[lower]] = value
        return cls(values)

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return a parsed option.

        Raises:
            InvalidWriterOption: `parse` raises ValueError, whose text says what the value has to be.
        """
        text = self.values.get(name)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            raise InvalidWriterOption(f"the option {name} has to be {error}, not {text!r}") from None


def positive(text: str) -> int:
    """Parse a number above 0."""
    if not re.fullmatch(r"\d{1,9}", text) or not int(text):
        raise ValueError("a number above 0")
    return int(text)


def seconds(text: str) -> float:
    """Parse milliseconds above 0 into seconds."""
    return positive(text) / 1000


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
