"""Hooks of the quota callback `standard`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.seams.quotas import QuotaCallback, QuotaCallbackBackend, QuotaCallbackContext


class StandardQuotasBackend:
    """A quota callback that goes by the quotas of the image."""

    name = "standard"

    def create(self, context: QuotaCallbackContext) -> QuotaCallback:
        """Return a callback without quotas; the module that does the work is loaded now."""
        from tidelog.plugins.quotas.standard import StandardQuotas

        return StandardQuotas()


@hookimpl
def tidelog_quota_callbacks() -> Iterable[QuotaCallbackBackend]:
    """Return the quota callback `standard`."""
    return (StandardQuotasBackend(),)
