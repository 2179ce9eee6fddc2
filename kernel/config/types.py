"""Types of configuration values: how text becomes a value, back again, and the allowed range in words.

Every source (command line, environment, file, a client's CreateTopics) provides text in Kafka's own
notation, so a type has one parser.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import attrs

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SHORT_MIN, SHORT_MAX = -(2**15), 2**15 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

Scope = Literal["broker", "topic", "group", "client-metrics"]

SECRET_ARGUMENT: Final = "is a secret, and other users of the machine see the arguments of a process"  # noqa: S105
"""Why no option of a command takes it; a remedy follows."""

Alter: TypeAlias = Callable[[Mapping[str, str]], dict[str, str]]
"""A change of a configuration: a function from the settings in force, as text by name, to the new ones."""


@attrs.frozen
class ValueType(Generic[T_co]):
    """What a key's value may be: Kafka's name of the type, and the range in words (empty: any value will do).

    `parse` returns the value of a text; it raises ValueError with the reason alone, since its
    caller knows key and source. `format` gives the text that `parse` reads as that value, or `[hidden]` for a
    secret. `hides` returns whether a text has a secret in it, of a type where only some values have.
    """

    name: str
    allowed: str
    parse: Callable[[str], T_co] = attrs.field(eq=False, repr=False)
    format: Callable[[Any], str] = attrs.field(eq=False, repr=False, default=str)
    hides: Callable[[str], bool] = attrs.field(eq=False, repr=False, default=lambda _text: False)


def short(minimum: int = SHORT_MIN, maximum: int = SHORT_MAX) -> ValueType[int]:
    """Return Kafka's type short: a whole number of 16 bits."""
    return _whole("short", minimum, maximum, SHORT_MIN, SHORT_MAX)


def integer(minimum: int = INT_MIN, maximum: int = INT_MAX) -> ValueType[int]:
    """Return Kafka's type int: a whole number of 32 bits."""
    return _whole("int", minimum, maximum, INT_MIN, INT_MAX)


def long(minimum: int = LONG_MIN, maximum: int = LONG_MAX) -> ValueType[int]:
    """Return Kafka's type long: a whole number of 64 bits."""
    return _whole("long", minimum, maximum, LONG_MIN, LONG_MAX)


def _whole(name: str, minimum: int, maximum: int, lowest: int, highest: int) -> ValueType[int]:
    allowed = _range(
        str(minimum) if minimum > lowest else None,
        str(maximum) if maximum < highest else None,
    )

    def parse(text: str) -> int:
        digits = text.strip()
        unsigned = digits[1:] if digits.startswith(("+", "-")) else digits
        # int() also takes underscores, which Kafka does not; both take the digits of any script.
        if not unsigned.isdecimal():
            raise ValueError(f"is not a whole number ({name})")
        # The longest number that fits has 19 digits; int() refuses thousands of them with words of its own.
        number = int(digits) if len(digits) < _MANY_DIGITS else highest + 1
        if not lowest <= number <= highest:
            raise ValueError(f"does not fit the type {name}")
        if not minimum <= number <= maximum:
            raise ValueError(f"is out of range ({allowed})")
        return number

    return ValueType(name, allowed, parse)


_MANY_DIGITS = 100


def or_unlimited(inner: ValueType[int]) -> ValueType[int]:
    """Return the type of limits like `inner`; each negative number is -1, no limit, as in Kafka."""
    any_number = {"int": integer, "long": long}[inner.name]()

    def parse(text: str) -> int:
        if any_number.parse(text) < 0:
            return -1
        try:
            return inner.parse(text)
        except ValueError as error:
            raise ValueError(f"{error}; a negative number is no limit") from None

    return attrs.evolve(inner, allowed=f"{inner.allowed}, or negative: no limit", parse=parse)


def double(minimum: float | None = None, maximum: float | None = None) -> ValueType[float]:
    """Return Kafka's type double; both bounds belong to the range."""
    allowed = _range(
        None if minimum is None else f"{minimum:g}",
        None if maximum is None else f"{maximum:g}",
    )

    def parse(text: str) -> float:
        number = _java_double(text.strip())
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise ValueError(f"is out of range ({allowed})")
        return number

    return ValueType("double", allowed, parse, format_double)


_DOUBLE = re.compile(r"([+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?", re.ASCII)
_HEXADECIMAL_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)


def _java_double(text: str) -> float:
    """Return the number in Java's notation; NaN is refused, since no comparison with it holds."""
    if found := _DOUBLE.fullmatch(text):
        return float(found[1])
    if found := _HEXADECIMAL_DOUBLE.fullmatch(text):
        return float.fromhex(found[1])
    raise ValueError("is not a number (double)")


def format_double(number: float) -> str:
    """Return a double as Java prints it: `0.5`, `1.0E-5`, `Infinity`."""
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return repr(float(number))
    digits, exponent = f"{Decimal(repr(float(number))).normalize():E}".split("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def _range(minimum: str | None, maximum: str | None) -> str:
    if minimum is not None and minimum == maximum:
        return minimum
    if minimum is not None and maximum is not None:
        return f"{minimum} to {maximum}"
    if minimum is not None:
        return f">= {minimum}"
    return f"<= {maximum}" if maximum is not None else ""


def boolean() -> ValueType[bool]:
    """Return Kafka's type boolean: true or false in any case."""
    return ValueType("boolean", "true, false", _parse_boolean, lambda value: "true" if value else "false")


def _parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return word == "true"


def string(*, non_empty: bool = False) -> ValueType[str]:
    """Return Kafka's type string: white space around it does not count."""
    return (
        ValueType("string", "not empty", _parse_non_empty)
        if non_empty
        else ValueType("string", "", str.strip)
    )


def _parse_non_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


def class_name() -> ValueType[str]:
    """Return Kafka's type class: here the name of something that a plugin offers."""
    return ValueType("class", "", str.strip)


def authorizer_name() -> ValueType[str]:
    """Return the type string, where the class of Apache Kafka's authorizer is the one of that kind here."""
    return ValueType("string", "", _parse_authorizer)


def _parse_authorizer(text: str) -> str:
    name = text.strip()
    return "standard" if name == "org.apache.kafka.metadata.authorizer.StandardAuthorizer" else name


def choice(*choices: str) -> ValueType[str]:
    """Return the type of a string out of a few, written exactly so."""
    allowed = ", ".join(choices)

    def parse(text: str) -> str:
        if text.strip() not in choices:
            raise ValueError(f"is none of {allowed}")
        return text.strip()

    return ValueType("string", allowed, parse)


def comma_list(
    *choices: str,
    repeated: Literal["refused", "kept", "dropped"] = "refused",
    non_empty: bool = False,
) -> ValueType[tuple[str, ...]]:
    """Return Kafka's type list: items between commas; with `choices` only those, written exactly so.

    `repeated` is what becomes of an item that is there again.
    """
    any_of = f"any of {', '.join(choices)}"

    def parse(text: str) -> tuple[str, ...]:
        items = split_list(text)
        if non_empty and not items:
            raise ValueError("is empty")
        for item in items:
            if choices and item not in choices:
                near = nearest_name(item, choices)
                hint = f" (did you mean {near}?)" if near else ""
                raise ValueError(f"has {item!r}, but may have {any_of}{hint}")
        distinct = tuple(dict.fromkeys(items))
        if repeated == "refused" and len(distinct) < len(items):
            raise ValueError("names something twice")
        return distinct if repeated == "dropped" else items

    words = [any_of] * bool(choices) + ["no duplicates"] * (repeated == "refused")
    words += ["not empty"] * non_empty
    return ValueType("list", "; ".join(words), parse, ",".join)


def split_list(text: str) -> tuple[str, ...]:
    """Return the items between commas, none for blank text.

    Raises:
        ValueError: an item is empty.
    """
    items = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
    if "" in items:
        raise ValueError("has an empty item")
    return items


@attrs.frozen
class Password:
    """A secret: shown as `[hidden]` wherever it is printed."""

    value: str = attrs.field(repr=False)

    def __str__(self) -> str:
        return "[hidden]"


def password() -> ValueType[Password]:
    """Return Kafka's type password; `format` gives `[hidden]`."""
    return ValueType("password", "", Password)


def nullable(inner: ValueType[T]) -> ValueType[T | None]:
    """Return the type of values like `inner`, or of none: empty text means unset (None)."""

    def parse(text: str) -> T | None:
        return inner.parse(text) if text.strip() else None

    def format_value(value: T | None) -> str:
        return "" if value is None else inner.format(value)

    allowed = f"{inner.allowed}; empty: unset" if inner.allowed else ""
    return ValueType(inner.name, allowed, parse, format_value)


def optional(inner: ValueType[T]) -> ValueType[T | None]:
    """Return the type of values like `inner`, or of none where the key is not set: no text means that."""

    def format_value(value: T | None) -> str:
        return "" if value is None else inner.format(value)

    return ValueType(inner.name, inner.allowed, inner.parse, format_value)


def limits_by_host() -> ValueType[dict[str, int]]:
    """Return the type of `host:count,host:count`; an IPv6 address may stand in brackets."""
    return ValueType(
        "string", "host:number pairs between commas, each number >= 0", _parse_limits, _format_limits
    )


def _parse_limits(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for pair in split_list(text):
        host, colon, count = pair.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not (colon and host):
            raise ValueError(f"has {pair!r}, which is no host:number pair")
        if host in limits:
            raise ValueError(f"names {host} twice")
        try:
            limits[host] = integer(0).parse(count)
        except ValueError as error:
            raise ValueError(f"has {count!r} for {host}, which {error}") from None
    return limits


def _format_limits(limits: dict[str, int]) -> str:
    return ",".join(
        f"[{host}]:{count}" if ":" in host else f"{host}:{count}" for host, count in limits.items()
    )


def names_by_listener(allowed: str, *names: str) -> ValueType[dict[str, str]]:
    """Return the type of `LISTENER:name,LISTENER:name`, with `allowed` in words; listeners are upper case.

    With `names` only those, which are security protocols, may be given.
    """

    def parse(text: str) -> dict[str, str]:
        found = _parse_names(text)
        for listener, name in found.items():
            if names and name not in names:
                raise ValueError(
                    f"gives the listener {listener} the protocol {name}, which is none of {', '.join(names)}"
                )
        return found

    return ValueType("string", allowed, parse, _format_names)


def _parse_names(text: str) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in split_list(text):
        listener, _, name = (part.strip() for part in pair.partition(":"))
        if not (listener and name):
            raise ValueError(f"has {pair!r}, which is no LISTENER:name pair")
        if listener.upper() in names:
            raise ValueError(f"names {listener} twice")
        names[listener.upper()] = name
    return names


def _format_names(names: dict[str, str]) -> str:
    return ",".join(f"{listener}:{name}" for listener, name in names.items())


_CLOSE_ENOUGH = 0.7
"""difflib's ratio from which on a valid name is worth suggesting; below, suggestions look like nonsense."""


def nearest_name(wrong: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that is most like a wrong one, None when none is like it."""
    # Not at the top: only a mistake needs it.
    from difflib import get_close_matches

    close = get_close_matches(wrong, list(valid), n=1, cutoff=_CLOSE_ENOUGH)
    return close[0] if close else None
