"""Hooks of the interceptor `schema_validation`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.schema_validation import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.interceptors import Interceptor, InterceptorContext, InterceptorKind


class SchemaValidationKind:
    """Interceptors that refuse values which do not fit a schema."""

    name = "schema_validation"

    def create(self, context: InterceptorContext) -> Interceptor:
        """Return an interceptor; the module that does the work is loaded now."""
        from tidelog.plugins.schema_validation.interceptor import create

        return create(context)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys that tables of this kind have."""
    return declared_keys(keys)


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    """Return the kind `schema_validation`."""
    return (SchemaValidationKind(),)


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the interceptor `schema_validation`."""
    from tidelog.plugins.schema_validation.conformance import SchemaValidationConformance

    return (SchemaValidationConformance,)
