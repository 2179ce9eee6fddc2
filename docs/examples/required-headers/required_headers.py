"""The interceptor `required_headers`: each record has certain headers, or its batch is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import comma_list
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Interceptor,
    InterceptorContext,
    InterceptorKind,
    Record,
    RefusedRecord,
    RunsIn,
)

TIDELOG_INTERFACE = "1.0"
NAMES = ConfigKey[Sequence[str]](
    name="interceptors.NAME.required_headers.names",
    type=comma_list(),
    default=(),
    documentation="The names of the headers that each record has to have.",
)


class RequiredHeaders(Interceptor):
    runs_in = RunsIn.LOOP

    def __init__(self, context: InterceptorContext) -> None:
        self._names = set(() if context.table is None else context.table[NAMES])
        if not self._names:
            raise ConfigError(f"interceptors.{context.name}.required_headers.names has to name a header")

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        for record in records:
            missing = self._names.difference(name for name, _ in record.headers)
            yield RefusedRecord(f"the header {min(missing)} is missing") if missing else record


class RequiredHeadersKind:
    name = "required_headers"

    def create(self, context: InterceptorContext) -> Interceptor:
        return RequiredHeaders(context)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[Sequence[str]]]:
    return [NAMES]


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    return [RequiredHeadersKind()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    from required_headers_conformance import RequiredHeadersConformance

    return [RequiredHeadersConformance]
