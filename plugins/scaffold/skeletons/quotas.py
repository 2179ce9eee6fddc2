"""A quota callback: each user may write and read so many bytes per second, with all clients together."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import long
from tidelog.kernel.seams.quotas import (
    ClientQuotaType,
    QuotaCallback,
    QuotaCallbackBackend,
    QuotaCallbackContext,
    QuotaLimit,
)
from tidelog.kernel.seams.requests import Principal

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

BYTES = ConfigKey(
    name="skeleton.bytes.per.second",
    type=long(1),
    default=100_000_000,
    documentation="Bytes per second that a user may write, and may read.",
)


class SkeletonQuotas(QuotaCallback):
    """The quotas of a broker; it is asked for each request and has to return soon."""

    types: Collection[ClientQuotaType] = (ClientQuotaType.PRODUCE, ClientQuotaType.FETCH)

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second

    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> QuotaLimit | None:
        """Return the limit of a request: all whose `shared_by` is equal use it up together."""
        return QuotaLimit(principal, self._bytes_per_second) if quota_type in self.types else None


class SkeletonQuotasBackend:
    """What the key `client.quota.callback.class` chooses."""

    name = "skeleton"

    def create(self, context: QuotaCallbackContext) -> QuotaCallback:
        """Return the quotas of a broker."""
        return SkeletonQuotas(context.config[BYTES])


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[int]]:
    """Return the keys of the callback."""
    return [BYTES]


@hookimpl
def tidelog_quota_callbacks() -> Iterable[QuotaCallbackBackend]:
    """Offer the callback."""
    return [SkeletonQuotasBackend()]
