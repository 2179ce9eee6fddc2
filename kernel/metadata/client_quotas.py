"""Client quotas (KIP-546): limits of users, client ids and addresses, as clients set and read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity: TypeAlias = frozenset[tuple[str, str | None]]
"""Pairs of a type (`USER`, `CLIENT_ID`, `IP`) and a name; None is the default of all names of that type."""


QuotasByEntity: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
"""The values of each entity that has any, by keys such as `producer_byte_rate`."""


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
