"""The interceptor `masking`: on the way to a client, or into the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    FetchInfo,
    Interceptor,
    InterceptorContext,
    Record,
    RefusedRecord,
)
from tidelog.plugins.masking import keys
from tidelog.plugins.masking.fields import (
    REMOVED,
    FieldMask,
    Mask,
    Unreadable,
    hashing,
    removing,
    replacing,
)

if TYPE_CHECKING:
    from tidelog.kernel.config.tables import TableConfig


def create(context: InterceptorContext) -> Interceptor:
    """Return the interceptor of a table.

    Raises:
        ConfigError: the table names nothing to mask, or has no secret to hash with.
    """
    table = context.table
    if table is None:
        raise ConfigError(
            "the interceptor masking is no policy for topics: give it a table [interceptors.NAME]"
        )
    name = f"interceptors.{context.name}"
    if not table[keys.FIELDS] and not table[keys.HEADERS]:
        raise ConfigError(f"[{name}] masks nothing: set masking.fields or masking.headers")
    secret = table[keys.SECRET]
    if table[keys.HOW] == keys.HASH and secret is None:
        raise ConfigError(f"[{name}] hashes without a secret: set masking.secret")
    masks: dict[str, Callable[[], Mask]] = {
        keys.REPLACE: lambda: replacing(table[keys.TEXT]),
        keys.REMOVE: lambda: removing,
        keys.HASH: lambda: hashing((secret.value if secret else "").encode()),
    }
    masking = _RecordMask(table, masks[table[keys.HOW]]())
    if table[keys.WHEN] == keys.APPEND:
        return MaskedAppends(masking)
    return MaskedFetches(masking, frozenset(table[keys.EXCEPT_PRINCIPALS]))


class _RecordMask:
    """Masks a record, or says that it is to be left out."""

    def __init__(self, table: TableConfig, mask: Mask) -> None:
        self._fields = FieldMask(table[keys.FIELDS], mask) if table[keys.FIELDS] else None
        self._headers = frozenset(table[keys.HEADERS])
        self._mask = mask
        self._text = table[keys.TEXT].encode()
        self._unreadable = table[keys.UNREADABLE]

    def apply(self, record: Record) -> Record | None:
        """Return a record as it may be seen; None if it may not."""
        value, headers = record.value, record.headers
        if value is not None and self._fields is not None:
            try:
                value = self._fields.apply(value)
            except Unreadable:
                if self._unreadable == keys.HIDE:
                    return None
                if self._unreadable == keys.MASK:
                    value = self._text
        if any(name in self._headers for name, _ in headers):
            headers = [*self._masked_headers(headers)]
        if value is record.value and headers is record.headers:
            return record
        return attrs.evolve(record, value=value, headers=headers)

    def _masked_headers(
        self, headers: Iterable[tuple[str, bytes | None]]
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, value in headers:
            if name not in self._headers or value is None:
                yield name, value
            elif (masked := self._mask(value)) is not REMOVED:
                yield name, str(masked).encode()


class MaskedFetches(Interceptor):
    """Masks what clients get, but for some principals."""

    def __init__(self, masking: _RecordMask, excepted: frozenset[str]) -> None:
        self._masking = masking
        self._excepted = excepted

    def before_fetch(self, fetch: FetchInfo) -> bool:
        """Return whether the client's principal is none of those that see all."""
        return str(fetch.principal) not in self._excepted

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        """Mask each record."""
        return map(self._masking.apply, records)


class MaskedAppends(Interceptor):
    """Masks what goes into the log."""

    def __init__(self, masking: _RecordMask) -> None:
        self._masking = masking

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        """Mask each record."""
        for record in records:
            yield self._masking.apply(record) or RefusedRecord(
                "the value is not JSON, so it cannot be masked"
            )
