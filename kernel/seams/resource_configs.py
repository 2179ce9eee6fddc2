"""Configuration of groups and of subscriptions to client metrics, as clients alter it (KIP-848, KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from tidelog.kernel.config import Alter, TopicConfig
    from tidelog.kernel.errors import BrokerError

ResourceScope: TypeAlias = Literal["group", "client-metrics"]
"""The kinds of resources beside topics and brokers; their keys are those of that scope."""


class ResourceConfigs(Protocol):
    """The configurations of these resources; a resource needs not exist to be configured."""

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        ...

    def names(self, scope: ResourceScope) -> Sequence[str]:
        """Return the resources that have a configuration of their own."""
        ...

    def settings(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return what is set for a resource itself, as text by key."""
        ...

    def find(self, scope: ResourceScope, name: str) -> TopicConfig | None:
        """Return the typed configuration of a resource, None when nothing is set for it.

        It is the same object until the resource is altered. Settings that are not valid here are left out.
        """
        ...

    async def alter(
        self, scope: ResourceScope, name: str, alter: Alter, *, validate_only: bool = False
    ) -> None:
        """Change what is set for a resource, durably; `alter` gives the new settings from the present ones.

        Raises:
            InvalidRequest: the name is empty.
            InvalidConfig: an unknown key or a bad value is new.
            BrokerError: what `alter` raises.
            StorageError: the disk refused; the configuration is as before.
        """
        ...

    async def alter_all(
        self, scope: ResourceScope, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what is set for different resources, durably, in one change.

        For each return None, or what `alter` would raise.
        """
        ...
