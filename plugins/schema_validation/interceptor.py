"""The interceptor `schema_validation`: each value is checked before its batch is appended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config import interceptor_keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Interceptor,
    InterceptorContext,
    Record,
    RefusedRecord,
)
from tidelog.plugins.schema_validation import keys
from tidelog.plugins.schema_validation.unfit import Unfit

if TYPE_CHECKING:
    from tidelog.kernel.config.tables import TableConfig

MAX_SCHEMA_BYTES: Final = 4 * 1024 * 1024
_EXTRAS: Final = {keys.JSON: "json-schema", keys.AVRO: "avro", keys.PROTOBUF: "protobuf"}

Check = Callable[[bytes], None]
"""Returns if a value fits; raises `Unfit`."""


class SchemaValidation(Interceptor):
    """Refuses the records whose values do not fit."""

    def __init__(self, check: Check, *, skip_bytes: int, max_value_bytes: int, allow_null: bool) -> None:
        self._check = check
        self._skip_bytes = skip_bytes
        self._max_value_bytes = max_value_bytes
        self._allow_null = allow_null

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        """Refuse each record that does not fit, and leave the others as they are."""
        for record in records:
            fault = self._fault(record.value)
            yield record if fault is None else RefusedRecord(fault)

    def _fault(self, value: bytes | None) -> str | None:
        if value is None:
            return None if self._allow_null else "the value is null"
        if len(value) > self._max_value_bytes:
            return f"the value has {len(value)} bytes, more than {self._max_value_bytes}"
        if len(value) < self._skip_bytes:
            return f"the value has {len(value)} bytes, fewer than are in front of it"
        try:
            self._check(value[self._skip_bytes :])
        except Unfit as unfit:
            return str(unfit)
        return None


def create(context: InterceptorContext) -> Interceptor:
    """Return the interceptor of a table, with its schema read.

    Raises:
        ConfigError: the schema cannot be read or used, or its library is not installed.
    """
    table = context.table
    if table is None:
        raise ConfigError(
            "the interceptor schema_validation is no policy for topics: give it a table [interceptors.NAME]"
        )
    name = f"interceptors.{context.name}"
    schema_format = table[keys.FORMAT]
    try:
        check = _check_of(schema_format, _content(table), table)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"[{name}] needs {error.name}: install tidelog[{_EXTRAS[schema_format]}]"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{name}.schema_validation.file = {table[keys.FILE]!r} cannot be used: {error}"
        ) from error
    return SchemaValidation(
        check,
        skip_bytes=table[keys.SKIP_BYTES],
        max_value_bytes=table[keys.MAX_VALUE_BYTES],
        allow_null=table[keys.ALLOW_NULL],
    )


def _content(table: TableConfig) -> bytes:
    path = Path(table[keys.FILE])
    if not table[keys.FILE]:
        raise ValueError("it is not set")
    with path.open("rb") as file:
        content = file.read(MAX_SCHEMA_BYTES + 1)
    if len(content) > MAX_SCHEMA_BYTES:
        raise ValueError(f"it has more than {MAX_SCHEMA_BYTES} bytes")
    return content


def _check_of(schema_format: str, content: bytes, table: TableConfig) -> Check:
    # Not at the top: each needs a library of its own.
    if schema_format == keys.AVRO:
        from tidelog.plugins.schema_validation.avro import avro_check

        return avro_check(content)
    if schema_format == keys.PROTOBUF:
        from tidelog.plugins.schema_validation.protobuf import protobuf_check

        return protobuf_check(content, table[keys.MESSAGE])
    from tidelog.plugins.schema_validation.json_schema import json_check

    # Half of the time, since the other half is for finding out where a value that is unfit is so.
    return json_check(content, table[interceptor_keys.TIMEOUT_MS] / 2000)
