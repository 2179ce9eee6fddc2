"""The quota callback `standard`: Kafka's order of precedence among the quotas of users and client ids.

Source: `DefaultQuotaCallback` of Apache Kafka; Kafka documentation, "Setting quotas".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.kernel.metadata.client_quotas import CLIENT_ID, USER, QuotaEntity
from tidelog.kernel.seams.quotas import ALL_QUOTA_TYPES, ClientQuotaType, QuotaCallback, QuotaLimit

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange, MetadataImage
    from tidelog.kernel.seams.requests import Principal

ABSENT: Final = ""
"""Stands for the part that an entity has not; names are never empty."""
DEFAULT: Final = None
"""Stands for all names that have no quota of their own."""

Parts: TypeAlias = tuple[str | None, str | None]
"""User and client id of an entity."""


class StandardQuotas(QuotaCallback):
    """The quotas of the image: the most specific one that is set counts.

    1. user and client id, 2. user and default client id, 3. user, 4. default user and client id, 5. default
    user and default client id, 6. default user, 7. client id, 8. default client id. A quota with a client id,
    or the default one, is used up by each client id on its own; one of a user by all its clients together.
    As in Kafka a client without a client id has only the quotas of its user, 3 and 6.
    """

    def __init__(self) -> None:
        self.types: Collection[ClientQuotaType] = ()
        self._limits: dict[ClientQuotaType, dict[Parts, float]] = {kind: {} for kind in ALL_QUOTA_TYPES}

    def load(self, image: MetadataImage) -> None:
        """Take over all quotas."""
        for limits in self._limits.values():
            limits.clear()
        for entity, values in image.quotas.items():
            self._set(entity, values)
        self._note_types()

    async def follow(self, change: ImageChange) -> None:
        """Take over the quotas of the entities that a change is about."""
        for entity in change.delta.quotas:
            self._set(entity, change.image.quotas.get(entity, {}))
        self._note_types()

    def limit(self, quota_type: ClientQuotaType, principal: Principal, client_id: str) -> QuotaLimit | None:
        """Return the first limit in the order of precedence."""
        limits, user = self._limits[quota_type], principal.name
        of_user, of_client = (user, ABSENT), (ABSENT, client_id)
        if not client_id:
            candidates: tuple[tuple[Parts, Parts], ...] = (of_user, of_user), ((DEFAULT, ABSENT), of_user)
        else:
            of_both = (user, client_id)
            candidates = (
                (of_both, of_both),
                ((user, DEFAULT), of_both),
                (of_user, of_user),
                ((DEFAULT, client_id), of_both),
                ((DEFAULT, DEFAULT), of_both),
                ((DEFAULT, ABSENT), of_user),
                (of_client, of_client),
                ((ABSENT, DEFAULT), of_client),
            )
        for parts, shared_by in candidates:
            if (found := limits.get(parts)) is not None:
                return QuotaLimit(shared_by, found)
        return None

    def _note_types(self) -> None:
        self.types = [kind for kind, limits in self._limits.items() if limits]

    def _set(self, entity: QuotaEntity, values: Mapping[str, float]) -> None:
        parts = dict(entity)
        if not parts.keys() <= {USER, CLIENT_ID}:
            # That of an address limits connections.
            return
        key = parts.get(USER, ABSENT), parts.get(CLIENT_ID, ABSENT)
        for kind, limits in self._limits.items():
            if kind.value in values:
                limits[key] = values[kind.value]
            else:
                limits.pop(key, None)
