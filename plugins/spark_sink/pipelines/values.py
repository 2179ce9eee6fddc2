"""Types of values that only pipelines have."""

from __future__ import annotations

import re
from typing import Final, cast

import attrs

from tidelog.kernel.config.secret_names import mentions_secret, names_secret
from tidelog.kernel.config.types import ValueType, split_list

_NAME: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FUNCTION: Final = re.compile(rf"{_NAME}:{_NAME}")


def function_name() -> ValueType[str]:
    """Return the type of a function of the user: `module:function`."""

    def parse(text: str) -> str:
        if not _FUNCTION.fullmatch(text.strip()):
            raise ValueError("is not like module:function")
        return text.strip()

    return ValueType("string", "module:function", parse)


def schema() -> ValueType[str]:
    """Return the type of a schema in Spark's DDL."""

    def parse(text: str) -> str:
        from tidelog.plugins.spark_sink.pipelines.schema import check_schema

        check_schema(text)
        return text.strip()

    return ValueType("string", "fields such as `station STRING, metres DOUBLE`", parse)


def columns() -> ValueType[tuple[str, ...]]:
    """Return the type of a list of SQL expressions between commas, which may have commas in parentheses."""

    def parse(text: str) -> tuple[str, ...]:
        from tidelog.plugins.spark_sink.pipelines.schema import split_columns

        return split_columns(text)

    return ValueType("list", "SQL expressions", parse, ", ".join)


def starting_offsets() -> ValueType[str]:
    """Return the type of where a pipeline begins: `earliest`, `latest`, or offsets as in Spark's option."""

    def parse(text: str) -> str:
        word = text.strip()
        if word.startswith("{"):
            _check_offsets(word)
        elif word not in ("earliest", "latest"):
            raise ValueError("is neither earliest nor latest nor a JSON object of offsets")
        return word

    return ValueType("string", 'earliest, latest, or like {"topic": {"0": 23}}', parse)


def _check_offsets(text: str) -> None:
    # Not at the top: most brokers have no pipeline.
    from tidelog.plugins.spark_sink.option_values import InvalidOption
    from tidelog.plugins.spark_sink.source.positions import EARLIEST, parse_positions

    try:
        parse_positions("starting.offsets", text, least=EARLIEST)
    except InvalidOption:
        raise ValueError('is not like {"topic": {"0": 23, "1": -2}}') from None


@attrs.frozen
class Options:
    """Names and values that are passed on, in their order."""

    items: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)

    def as_dict(self) -> dict[str, str]:
        """Return them by name."""
        return dict(self.items)


def options() -> ValueType[Options]:
    """Return the type of further options: `NAME=VALUE` between commas, or a JSON object."""
    return ValueType(
        "string", "NAME=VALUE pairs between commas, or a JSON object", _parse_options, _format, _hides
    )


def _parse_options(text: str) -> Options:
    pairs = _from_json(text) if text.strip().startswith("{") else _from_list(text)
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("names an option twice")
    return Options(tuple(pairs))


def _hides(text: str) -> bool:
    try:
        return any(names_secret(name) for name, _ in _parse_options(text).items)
    except ValueError:
        return mentions_secret(text)


def _from_list(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for item in split_list(text):
        name, equals, value = item.partition("=")
        if not (name.strip() and equals):
            # It may be the rest of a password with a comma.
            shown = "something" if mentions_secret(text) else repr(item)
            raise ValueError(f"has {shown}, which is no NAME=VALUE pair; a JSON object may have commas")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _from_json(text: str) -> list[tuple[str, str]]:
    import json

    try:
        found: object = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise ValueError(f"is no JSON object: {error}") from None
    pairs: list[tuple[str, str]] = []
    for name, value in cast("list[tuple[str, object]]", found):
        if not isinstance(value, str | int | float):
            raise ValueError(f"has a value for {name} that is neither text nor a number nor true or false")
        pairs.append((name, value if isinstance(value, str) else json.dumps(value)))
    return pairs


def _format(value: Options) -> str:
    shown = {name: "[hidden]" if names_secret(name) else text for name, text in value.items}
    if any("," in text for text in shown.values()):
        import json

        return json.dumps(shown)
    return ",".join(f"{name}={text}" for name, text in shown.items())
