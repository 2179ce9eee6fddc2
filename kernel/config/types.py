"""Types of configuration values: how text becomes a value, back again, and the allowed range in words.

Every source (command line, environment, file, a client's CreateTopics) hands over text in Kafka's own
notation, so a type has one parser. `parse` raises ValueError with the reason alone; the caller knows key and
source and adds them.
"""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeVar, cast

import attrs

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class ValueType(Protocol[T_co]):
    """What a key's value may be."""

    @property
    def name(self) -> str:
        """Kafka's name of the type: int, long, boolean, list and so on."""
        ...

    @property
    def allowed(self) -> str:
        """The range in words, empty when every value of the type will do."""
        ...

    def parse(self, text: str) -> T_co:
        """The value that `text` stands for.

        Raises:
            ValueError: it stands for none; the message is the reason, without key and value.
        """
        ...

    def format(self, value: object) -> str:
        """The text that `parse` reads as `value`."""
        ...


@attrs.frozen
class _Whole:
    name: str
    minimum: int
    maximum: int
    lowest: int
    highest: int

    @property
    def allowed(self) -> str:
        below, above = self.minimum > self.lowest, self.maximum < self.highest
        if self.minimum == self.maximum:
            return f"{self.minimum}"
        if below and above:
            return f"{self.minimum} to {self.maximum}"
        if above:
            return f"<= {self.maximum}"
        return f">= {self.minimum}" if below else ""

    def parse(self, text: str) -> int:
        digits = text.strip()
        # int() also takes underscores and other scripts' digits, which Kafka does not.
        if not (digits.isascii() and digits.lstrip("+-").isdigit()):
            raise ValueError(f"is not a whole number ({self.name})")
        try:
            number = int(digits)
        except ValueError:
            raise ValueError(f"is not a whole number ({self.name})") from None
        if not self.lowest <= number <= self.highest:
            raise ValueError(f"does not fit the type {self.name}")
        if not self.minimum <= number <= self.maximum:
            raise ValueError(f"is out of range ({self.allowed})")
        return number

    def format(self, value: object) -> str:
        return str(value)


def integer(minimum: int = INT_MIN, maximum: int = INT_MAX) -> ValueType[int]:
    """Kafka's int: a whole number of 32 bits."""
    return _Whole("int", minimum, maximum, INT_MIN, INT_MAX)


def long(minimum: int = LONG_MIN, maximum: int = LONG_MAX) -> ValueType[int]:
    """Kafka's long: a whole number of 64 bits."""
    return _Whole("long", minimum, maximum, LONG_MIN, LONG_MAX)


@attrs.frozen
class _Double:
    minimum: float | None
    maximum: float | None
    name: str = "double"

    @property
    def allowed(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f">= {self.minimum:g}"
        return f"<= {self.maximum:g}" if self.maximum is not None else ""

    def parse(self, text: str) -> float:
        try:
            number = float(text.replace("_", "x"))
        except ValueError:
            raise ValueError("is not a number (double)") from None
        too_low = self.minimum is not None and not number >= self.minimum
        too_high = self.maximum is not None and not number <= self.maximum
        if too_low or too_high or number != number:
            raise ValueError(f"is out of range ({self.allowed})")
        return number

    def format(self, value: object) -> str:
        return str(value)


def double(minimum: float | None = None, maximum: float | None = None) -> ValueType[float]:
    """Kafka's double; both bounds belong to the range."""
    return _Double(minimum, maximum)


@attrs.frozen
class _Boolean:
    name: str = "boolean"
    allowed: str = "true, false"

    def parse(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise ValueError("is neither true nor false")
        return word == "true"

    def format(self, value: object) -> str:
        return "true" if value else "false"


def boolean() -> ValueType[bool]:
    """Kafka's boolean: true or false in any case."""
    return _Boolean()


@attrs.frozen
class _String:
    non_empty: bool
    name: str = "string"

    @property
    def allowed(self) -> str:
        return "not empty" if self.non_empty else ""

    def parse(self, text: str) -> str:
        value = text.strip()
        if self.non_empty and not value:
            raise ValueError("is empty")
        return value

    def format(self, value: object) -> str:
        return str(value)


def string(*, non_empty: bool = False) -> ValueType[str]:
    """Kafka's string: white space around it does not count."""
    return _String(non_empty)


@attrs.frozen
class _Choice:
    choices: tuple[str, ...]
    name: str = "string"

    @property
    def allowed(self) -> str:
        return ", ".join(self.choices)

    def parse(self, text: str) -> str:
        value = text.strip()
        if value not in self.choices:
            raise ValueError(f"is none of {self.allowed}")
        return value

    def format(self, value: object) -> str:
        return str(value)


def choice(*choices: str) -> ValueType[str]:
    """A string out of a few, written exactly so."""
    return _Choice(choices)


@attrs.frozen
class _List:
    choices: tuple[str, ...]
    unique: bool
    name: str = "list"

    @property
    def allowed(self) -> str:
        words = [f"any of {', '.join(self.choices)}"] if self.choices else []
        return "; ".join(words + ["no duplicates"] * self.unique)

    def parse(self, text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
        if "" in items:
            raise ValueError("has an empty item")
        for item in items:
            if self.choices and item not in self.choices:
                raise ValueError(f"has {item!r}, which is none of {', '.join(self.choices)}")
        if self.unique and len(set(items)) < len(items):
            raise ValueError("names something twice")
        return items

    def format(self, value: object) -> str:
        return ",".join(cast("tuple[str, ...]", value))


def comma_list(*choices: str, unique: bool = True) -> ValueType[tuple[str, ...]]:
    """Kafka's list: items between commas; with `choices` only those, written exactly so."""
    return _List(choices, unique)


@attrs.frozen
class Password:
    """A secret: shown as `[hidden]` wherever it is printed."""

    value: str = attrs.field(repr=False)

    def __str__(self) -> str:
        return "[hidden]"


@attrs.frozen
class _PasswordType:
    name: str = "password"
    allowed: str = ""

    def parse(self, text: str) -> Password:
        return Password(text)

    def format(self, value: object) -> str:
        return str(value)


def password() -> ValueType[Password]:
    """Kafka's password; `format` gives `[hidden]`."""
    return _PasswordType()


@attrs.frozen
class _Nullable(Generic[T_co]):
    inner: ValueType[T_co]

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def allowed(self) -> str:
        return f"{self.inner.allowed}, or empty: unset" if self.inner.allowed else ""

    def parse(self, text: str) -> T_co | None:
        return self.inner.parse(text) if text.strip() else None

    def format(self, value: object) -> str:
        return "" if value is None else self.inner.format(value)


def nullable(inner: ValueType[T]) -> ValueType[T | None]:
    """Like `inner`, and empty text means unset (None)."""
    return _Nullable(inner)


@attrs.frozen
class _Limits:
    name: str = "string"
    allowed: str = "host:number pairs between commas, each number >= 0"

    def parse(self, text: str) -> dict[str, int]:
        limits: dict[str, int] = {}
        for pair in comma_list(unique=False).parse(text):
            host, colon, count = pair.rpartition(":")
            host = host.strip().strip("[]")
            if not (colon and host):
                raise ValueError(f"has {pair!r}, which is no host:number pair")
            if host in limits:
                raise ValueError(f"names {host} twice")
            try:
                limits[host] = integer(0).parse(count)
            except ValueError as error:
                raise ValueError(f"has {count!r} for {host}, which {error}") from None
        return limits

    def format(self, value: object) -> str:
        limits = cast("dict[str, int]", value).items()
        return ",".join(f"[{host}]:{count}" if ":" in host else f"{host}:{count}" for host, count in limits)


def limits_by_host() -> ValueType[dict[str, int]]:
    """`host:count,host:count`; an IPv6 address may stand in brackets."""
    return _Limits()


@attrs.frozen
class _NamesByListener:
    allowed: str
    name: str = "string"

    def parse(self, text: str) -> dict[str, str]:
        names: dict[str, str] = {}
        for pair in comma_list(unique=False).parse(text):
            left, _, right = (part.strip() for part in pair.partition(":"))
            if not (left and right):
                raise ValueError(f"has {pair!r}, which is no name:name pair")
            if left.upper() in names:
                raise ValueError(f"names {left} twice")
            names[left.upper()] = right
        return names

    def format(self, value: object) -> str:
        return ",".join(f"{left}:{right}" for left, right in cast("dict[str, str]", value).items())


def names_by_listener(allowed: str) -> ValueType[dict[str, str]]:
    """`LISTENER:name,LISTENER:name`, described by `allowed`; listeners' names are upper case in any case."""
    return _NamesByListener(allowed)


Scope = Literal["broker", "topic"]
