"""A plugin for brokers that are measured: interceptors that look at headers, and at each record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Interceptor,
    InterceptorContext,
    InterceptorKind,
    Record,
    RefusedRecord,
)

HEADERS = "benchmark-headers"
RECORDS = "benchmark-records"


class HeadersOnly(Interceptor):
    """Routes what is too large: nothing of what is measured."""

    def before_append(self, batch: BatchInfo) -> str | None:
        return "large" if batch.size_bytes > 1_000_000 else None


class EachRecord(Interceptor):
    """Looks at each value, and leaves all."""

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        for record in records:
            yield RefusedRecord("there is no value") if record.value is None else record


class _Kind:
    def __init__(self, name: str, make: Callable[[], Interceptor]) -> None:
        self.name = name
        self._make = make

    def create(self, context: InterceptorContext) -> Interceptor:
        return self._make()


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    return [_Kind(HEADERS, HeadersOnly), _Kind(RECORDS, EachRecord)]
