"""The seam of client quotas: which limit a request counts against, chosen by `client.quota.callback.class`.

A quota callback only names limits. What was used of them, for how long a client is throttled, and what it is
answered meanwhile is the matter of `tidelog.kernel.request` and of the wire protocol.

Source: KIP-257, `ClientQuotaCallback` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.kernel.config import Config
    from tidelog.kernel.metadata import ImageChange, MetadataImage
    from tidelog.kernel.seams.requests import Principal


class ClientQuotaType(Enum):
    """What is limited; the values are the keys of quotas (KIP-546)."""

    PRODUCE = "producer_byte_rate"
    """Bytes of Produce requests per second."""
    FETCH = "consumer_byte_rate"
    """Bytes of Fetch responses per second."""
    REQUEST = "request_percentage"
    """Time of the event loop for requests, in percent."""
    CONTROLLER_MUTATION = "controller_mutation_rate"
    """Partitions that are created and deleted per second (KIP-599)."""


ALL_QUOTA_TYPES: Final = frozenset(ClientQuotaType)


class QuotaLimit(NamedTuple):
    """A limit per second; all requests whose `shared_by` is equal use it up together."""

    shared_by: Hashable
    per_second: float


class QuotaCallback(Protocol):
    """Names the limits of clients. It is asked on the event loop for each request and has to return soon.

    An exception is logged, and the request has no limit.
    """

    types: Collection[ClientQuotaType] = ALL_QUOTA_TYPES
    """What may be limited now, read again after `load` and `follow`: it is not asked for other types."""

    def load(self, image: MetadataImage) -> None:
        """Take over the image as a whole, before anything is asked."""
        return

    async def follow(self, change: ImageChange) -> None:
        """Take over a change of the image. It does not raise."""
        return

    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> QuotaLimit | None:
        """Return the limit of a request, None for none; `client_id` is empty where the client has none."""
        ...


@attrs.frozen
class QuotaCallbackContext:
    """What a quota callback may use of its broker."""

    config: Config


class QuotaCallbackBackend(Protocol):
    """A kind of quota callback, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `client.quota.callback.class` chooses it by."""
        ...

    def create(self, context: QuotaCallbackContext) -> QuotaCallback:
        """Return a callback that has loaded no image yet.

        Raises:
            ConfigError: it cannot be used as it is configured.
        """
        ...
