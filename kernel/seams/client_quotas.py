"""Client quotas (KIP-546): limits of users, client ids and addresses, as clients set and read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from tidelog.kernel.errors import BrokerError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]
"""Pairs of a type (`USER`, `CLIENT_ID`, `IP`) and a name; None is the default of all names of that type."""


class QuotaChange(NamedTuple):
    """A quota of an entity, by its key such as `producer_byte_rate`; a value of None removes it."""

    entity: QuotaEntity
    key: str
    value: float | None


class QuotaFilter(NamedTuple):
    """What an entity has to be: `names` by type, and `types` of which it has to have a name.

    With `strict` it must have no other types.
    """

    names: Mapping[str, str | None]
    types: frozenset[str] = frozenset()
    strict: bool = False

    def matches(self, entity: QuotaEntity) -> bool:
        """Return whether the entity is one of those."""
        parts = dict(entity)
        if any(kind not in parts or parts[kind] != name for kind, name in self.names.items()):
            return False
        if not self.types <= parts.keys():
            return False
        return not self.strict or len(parts) == len(self.names) + len(self.types)


class ClientQuotas(Protocol):
    """The client quotas of the cluster.

    Attributes:
        revision: another number after each change, for those who keep what they have computed from `all`
    """

    revision: int

    def all(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """Return a view of the quotas of each entity."""
        ...

    async def alter(
        self, alterations: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Mapping[QuotaEntity, BrokerError]:
        """Set the quotas of entities, and remove those whose value is None, durably.

        Returns:
            InvalidRequest of each entity that is refused, of which nothing is changed.

        Raises:
            StorageError: the disk refused; all quotas are as before.
        """
        ...
