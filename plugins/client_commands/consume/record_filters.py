"""Which records are printed: regular expressions, and comparisons of their fields."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord

RecordFilter: TypeAlias = "Callable[[ConsumerRecord], bool]"

_STEP: Final = r"\.[\w-]+|\[\d+\]|\[\"[^\"]*\"\]"
_EXPRESSION: Final = re.compile(
    rf"\s*(?P<root>\w+)(?P<path>(?:{_STEP})*)\s*(?:(?P<sign>==|!=|<=|>=|=~|!~|<|>)\s*(?P<literal>.*?)\s*)?",
    re.DOTALL,
)
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=~": lambda found, pattern: re.search(pattern, _text(found)) is not None,
    "!~": lambda found, pattern: re.search(pattern, _text(found)) is None,
}

_SEARCHES: Final = ("=~", "!~")


def grep(part: str, pattern: str) -> RecordFilter:
    """Return the filter of records in whose `key` or `value` a regular expression is found; null has none.

    Raises:
        ValueError: it is none.
    """
    compiled = _compiled(pattern)

    def matches(record: ConsumerRecord) -> bool:
        data: bytes | None = getattr(record, part)
        return data is not None and compiled.search(data.decode(errors="replace")) is not None

    return matches


def grep_header(condition: str) -> RecordFilter:
    """Return the filter of records with a header: NAME, or NAME=REGEX; raises as `grep`."""
    name, equals, pattern = condition.partition("=")
    compiled = _compiled(pattern)

    def matches(record: ConsumerRecord) -> bool:
        return any(
            header == name and (not equals or compiled.search((content or b"").decode(errors="replace")))
            for header, content in record.headers
        )

    return matches


def where(expression: str) -> RecordFilter:
    """Return the filter of an expression: a field, or a field, a comparison and a JSON value or a word.

    A field is `topic`, `partition`, `offset`, `timestamp`, `key`, `value`, or a part of these if they are
    JSON, such as `value.items[0].name`, or `headers.NAME`. One that is not there is null. A field alone is
    true as in Python. `=~` and `!~` search a regular expression. Values of different types are not equal, and
    none of them is less than the other.

    Raises:
        ValueError: it is no such expression.
    """
    found = _EXPRESSION.fullmatch(expression)
    if found is None or found["root"] not in _ROOTS:
        raise ValueError(
            f"{expression!r} is no condition such as value.price > 5 on one of {', '.join(_ROOTS)}"
        )
    root, steps = _ROOTS[found["root"]], _steps(found["path"])
    if found["sign"] is None:
        return lambda record: bool(_at(root(record), steps))
    compare = _COMPARISONS[found["sign"]]
    wanted: Any = _literal(found["literal"])
    if found["sign"] in _SEARCHES:
        wanted = _compiled(wanted if isinstance(wanted, str) else found["literal"])

    def matches(record: ConsumerRecord) -> bool:
        try:
            return compare(_at(root(record), steps), wanted)
        except TypeError:
            return False

    return matches


def all_of(filters: Sequence[RecordFilter]) -> RecordFilter | None:
    """Return the filter of records that all let pass, None without any."""
    if len(filters) <= 1:
        return filters[0] if filters else None
    return lambda record: all(each(record) for each in filters)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None


def _decoded(data: bytes | None) -> Any:
    """Return JSON, or text that is none."""
    if data is None:
        return None
    text = data.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _headers(record: ConsumerRecord) -> dict[str, Any]:
    return {name: None if data is None else data.decode(errors="replace") for name, data in record.headers}


_ROOTS: Final[Mapping[str, Callable[[ConsumerRecord], Any]]] = {
    "value": lambda record: _decoded(record.value),
    "key": lambda record: _decoded(record.key),
    "headers": _headers,
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp_ms,
}


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for step in re.findall(_STEP, path):
        if step[0] == ".":
            steps.append(step[1:])
        else:
            steps.append(step[2:-2] if step[1] == '"' else int(step[1:-1]))
    return steps


def _at(found: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        try:
            found = found[step]
        except (LookupError, TypeError):
            return None
    return found


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
