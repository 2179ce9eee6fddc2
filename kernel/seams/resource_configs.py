"""Configuration of groups and of subscriptions to client metrics, as clients alter it (KIP-848, KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidelog.kernel.config import TopicConfig
    from tidelog.kernel.metadata import ResourceScope


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
