"""Configuration of groups and of client metrics, stored in the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelog.kernel.config import Config, TopicConfig
from tidelog.kernel.config.resource_settings import ResourceSettings
from tidelog.kernel.metadata import ConfigOwner, ImageChange, MetadataImage, ResourceScope


class ResourceConfigs:
    """The configurations of groups and of subscriptions to client metrics (KIP-848, KIP-714).

    A resource needs not exist to be configured.

    Attributes:
        version: a number that grows with each change
    """

    def __init__(self, config: Config, image: Callable[[], MetadataImage]) -> None:
        self._settings = ResourceSettings(config)
        self._image = image
        self._typed: dict[ConfigOwner, TopicConfig] = {}
        self.version = 0

    async def follow(self, change: ImageChange) -> None:
        """Compute those again that a delta changes, or all with the broker's, which has their defaults."""
        delta = change.delta
        if any(resource.scope == "broker" for resource in delta.configs):
            self._typed.clear()
        changed = [resource for resource in delta.configs if resource.scope != "broker"]
        for resource in changed:
            self._typed.pop(resource, None)
        self.version += bool(changed)

    def names(self, scope: ResourceScope) -> Sequence[str]:
        """Return the resources that have a configuration of their own."""
        return [resource.name for resource in self._image().configs if resource.scope == scope]

    def settings(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return what is set for a resource itself, as text by key."""
        return self._image().config(ConfigOwner(scope, name))

    def find(self, scope: ResourceScope, name: str) -> TopicConfig | None:
        """Return the typed configuration of a resource, None when nothing is set for it.

        It is the same object until the resource is altered. Settings that are not valid here are left out.
        """
        resource = ConfigOwner(scope, name)
        typed = self._typed.get(resource)
        if typed is None:
            settings = self._image().config(resource)
            if settings:
                typed = self._typed[resource] = self._settings.parsed(scope, name, settings)
        return typed
