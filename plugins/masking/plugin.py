"""Hooks of the interceptor `masking`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.masking import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.interceptors import Interceptor, InterceptorContext, InterceptorKind


class MaskingKind:
    """Interceptors that mask fields and headers."""

    name = "masking"

    def create(self, context: InterceptorContext) -> Interceptor:
        """Return an interceptor; the module that does the work is loaded now."""
        from tidelog.plugins.masking.interceptor import create

        return create(context)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys that tables of this kind have."""
    return declared_keys(keys)


@hookimpl
def tidelog_interceptors() -> Iterable[InterceptorKind]:
    """Return the kind `masking`."""
    return (MaskingKind(),)


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the interceptor `masking`."""
    from tidelog.plugins.masking.conformance import MaskingConformance

    return (MaskingConformance,)
