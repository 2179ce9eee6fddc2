"""Values that are JSON documents, by JSON Schema.

The schema is part of the configuration, the documents come from clients. So patterns are matched in linear
time by RE2, uniqueness is checked with a set, and each keyword that is evaluated looks at the time: what a
schema with choices within choices makes of a document is not bounded otherwise. References lead to parts of
the schema alone: nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from time import perf_counter
from typing import Any, Final, cast

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import Regex, compile_regex
from tidelog.plugins.schema_validation.documents import is_array, is_object
from tidelog.plugins.schema_validation.unfit import Unfit

MAX_SHOWN: Final = 200
"""Characters of an error that the client gets: it quotes the value."""

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any]]


def json_check(content: bytes, limit_s: float) -> Callable[[bytes], None]:
    """Return what checks values by a schema; one that takes longer than `limit_s` does not fit.

    Raises:
        ValueError: the schema cannot be used.
        ModuleNotFoundError: jsonschema is not installed.
    """
    jsonschema: Any = import_module("jsonschema")
    referencing: Any = import_module("referencing")
    schema = json.loads(content)
    dialect = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"it is no JSON Schema: {error.message}") from None
    watch = _Watch(limit_s)
    keywords = {name: watch.watched(keyword) for name, keyword in dialect.VALIDATORS.items()}
    bounded = _Bounded(schema, jsonschema.ValidationError)
    for name in ("pattern", "patternProperties", "additionalProperties", "uniqueItems"):
        keywords[name] = watch.watched(getattr(bounded, name.replace("P", "_p").replace("I", "_i")))
    validator = jsonschema.validators.extend(dialect, keywords)(schema, registry=referencing.Registry())

    def check(value: bytes) -> None:
        document = _document(value)
        watch.begin()
        try:
            error = next(validator.iter_errors(document), None)
        except RecursionError:
            raise Unfit("the document is nested too deeply") from None
        if error is not None:
            raise Unfit(_in_short(f"{error.json_path}: {error.message}"))

    _refuse_missing_references(validator, referencing)
    return check


def _refuse_missing_references(validator: Any, referencing: Any) -> None:
    """Check that each reference of a schema leads to a part of it.

    Raises:
        ValueError: one does not.
    """
    for reference in _values_of(validator.schema, "$ref"):
        try:
            validator._resolver.lookup(reference)
        except referencing.exceptions.Unresolvable:
            raise ValueError(
                f"it refers to {reference!r}, which is no part of it; nothing is fetched from elsewhere"
            ) from None


def _document(value: bytes) -> Any:
    try:
        return json.loads(value.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise Unfit("the document is nested too deeply") from None
    except ValueError as error:
        raise Unfit(_in_short(f"the value is not JSON: {error}")) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _in_short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


class _Watch:
    """The time that a document may take."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._until = 0.0

    def begin(self) -> None:
        """Begin with a document."""
        self._until = perf_counter() + self._limit_s

    def watched(self, keyword: Keyword) -> Keyword:
        """Return a keyword that looks at the time."""

        def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if perf_counter() > self._until:
                raise Unfit("the document takes too long to compare with the schema")
            # Some of the library's return None.
            return iter(cast("Any", keyword(validator, value, instance, schema)) or ())

        return evaluate


class _Bounded:
    """Keywords whose usual evaluation is not bounded by the size of a document."""

    def __init__(self, schema: Any, error: Callable[[str], Exception]) -> None:
        self._error = error
        patterns = {*_values_of(schema, "pattern")}
        for named in _values_of(schema, "patternProperties", kind=dict):
            patterns |= named.keys()
            if any("unevaluatedProperties" in each for each in _objects(schema)):
                raise ValueError("it has unevaluatedProperties together with patternProperties")
        try:
            self._patterns: dict[str, Regex] = {each: compile_regex(each) for each in patterns}
        except InvalidRegularExpression as error_of_pattern:
            raise ValueError(f"it has a pattern that RE2 does not know: {error_of_pattern}") from None

    def pattern(self, validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
        """Check that a pattern matches a text somewhere."""
        if isinstance(instance, str) and not self._patterns[pattern].search(instance):
            yield self._error(f"{instance!r} does not match {pattern!r}")

    def pattern_properties(
        self, validator: Any, patterns: dict[str, Any], instance: Any, schema: Any
    ) -> Iterator[Any]:
        """Check the fields whose names a pattern matches."""
        if not is_object(instance):
            return
        for pattern, of_field in patterns.items():
            matches = self._patterns[pattern].search
            for name, value in instance.items():
                if matches(name):
                    yield from validator.descend(value, of_field, path=name, schema_path=pattern)

    def additional_properties(
        self, validator: Any, additional: Any, instance: Any, schema: Any
    ) -> Iterator[Any]:
        """Check the fields that nothing else names, or that there are none."""
        if not is_object(instance):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, value in instance.items():
            if name in known or any(self._patterns[each].search(name) for each in patterns):
                continue
            if isinstance(additional, dict):
                yield from validator.descend(value, additional, path=name)
            elif not additional:
                yield self._error(f"the field {name!r} is not expected")

    def unique_items(self, validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[Any]:
        """Check that the elements of an array are different."""
        if unique and is_array(instance) and len({_canonical(each) for each in instance}) < len(instance):
            yield self._error("an element is in the array twice")


def _canonical(value: Any) -> str:
    """Return the same text for values that are equal in JSON Schema: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if is_array(value):
        return f"[{','.join(map(_canonical, value))}]"
    if is_object(value):
        fields = sorted(value.items())
        return f"{{{','.join(f'{json.dumps(name)}:{_canonical(each)}' for name, each in fields)}}}"
    return json.dumps(value)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    left = [schema]
    while left:
        node = left.pop()
        if is_object(node):
            yield node
            left += node.values()
        elif is_array(node):
            left += node


def _values_of(schema: Any, keyword: str, kind: type = str) -> Iterator[Any]:
    """Iterate over the values of a keyword anywhere in a schema; a field of that name is no keyword."""
    for each in _objects(schema):
        if isinstance(each.get(keyword), kind):
            yield each[keyword]
