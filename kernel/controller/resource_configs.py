"""Configuration of groups and of client metrics, stored in the metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from tidelog.kernel.config import Alter, Config, TopicConfig
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest
from tidelog.kernel.metadata import ConfigResource, ImageChange, MetadataDelta, MetadataImage, ResourceScope
from tidelog.kernel.pace import Pace

_log = logging.getLogger(__name__)

TITLES: Final[Mapping[str, str]] = {"group": "group", "client-metrics": "client metrics subscription"}
"""What a resource of each scope is called in messages."""


class ResourceConfigs:
    """The configurations of groups and of subscriptions to client metrics (KIP-848, KIP-714).

    A resource needs not exist to be configured.

    Attributes:
        version: a number that grows with each change
    """

    def __init__(self, config: Config, image: Callable[[], MetadataImage]) -> None:
        self._rules = ResourceConfigRules(config)
        self._image = image
        self._typed: dict[ConfigResource, TopicConfig] = {}
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
        return self._image().config(ConfigResource(scope, name))

    def find(self, scope: ResourceScope, name: str) -> TopicConfig | None:
        """Return the typed configuration of a resource, None when nothing is set for it.

        It is the same object until the resource is altered. Settings that are not valid here are left out.
        """
        resource = ConfigResource(scope, name)
        typed = self._typed.get(resource)
        if typed is None:
            settings = self._image().config(resource)
            if settings:
                typed = self._typed[resource] = self._rules.parsed(scope, name, settings)
        return typed


class ResourceConfigRules:
    """Decides changes of what is set for resources, and reads it."""

    def __init__(self, config: Config) -> None:
        self._config = config

    async def decide(
        self, image: MetadataImage, scope: ResourceScope, changes: Sequence[tuple[str, Alter]]
    ) -> tuple[MetadataDelta, list[BrokerError | None]]:
        """Return the change, and for each resource why it is refused."""
        results: list[BrokerError | None] = []
        altered: dict[ConfigResource, Mapping[str, str]] = {}
        pace = Pace()
        for name, alter in changes:
            resource = ConfigResource(scope, name)
            before = image.config(resource)
            try:
                after = self._altered(scope, name, alter, before)
            except BrokerError as error:
                results.append(error)
            else:
                results.append(None)
                if after != before:
                    altered[resource] = after
            await pace.turn()
        return MetadataDelta(configs=altered), results

    def _altered(
        self, scope: ResourceScope, name: str, alter: Alter, before: Mapping[str, str]
    ) -> dict[str, str]:
        if not name:
            raise InvalidRequest(f"the name of a {TITLES[scope]} must not be empty")
        after = alter(dict(before))
        self._check(scope, before, after)
        return after

    def _check(self, scope: ResourceScope, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        changed = [name for name in sorted(after) if after[name] != before.get(name)]
        for name in changed:
            self._check_value(scope, name, after[name])
        if changed or len(after) < len(before):
            self._check_limits(scope, self._values(scope, after))

    def _check_value(self, scope: ResourceScope, name: str, text: str) -> object:
        """Return the value.

        Raises:
            InvalidConfig: the key is unknown, or the value is not valid.
        """
        key = self._config.keys.find(name, scope)
        if key is None:
            judgement = self._config.keys.judge(name, text, scope)
            if judgement is not None:
                raise InvalidConfig(f"{name} {judgement.reason}")
            nearest = self._config.keys.nearest(name, scope)
            hint = f" (did you mean {nearest}?)" if nearest else ""
            unknown = f"Unknown {TITLES[scope]} configuration: {name}{hint}"
            # Apache Kafka's codes differ here.
            raise InvalidRequest(unknown) if scope == "client-metrics" else InvalidConfig(unknown)
        try:
            return key.type.parse(text)
        except ValueError as error:
            raise InvalidConfig(f"{name} = {text!r}: {error}") from None

    def _check_limits(self, scope: ResourceScope, config: TopicConfig) -> None:
        for key in self._config.keys.of_scope(scope):
            value = cast("int", config[key])
            if key.within is not None:
                low, high = key.within
                if not self._config[low] <= value <= self._config[high]:
                    raise InvalidConfig(
                        f"{key} = {value} must be at least {low} ({self._config[low]}) and at most {high} "
                        f"({self._config[high]})"
                    )
            limit = self._config.keys.find(key.below, scope) if key.below else None
            if limit is not None and value >= cast("int", config[limit]):
                raise InvalidConfig(f"{limit} ({config[limit]}) must be greater than {key} ({value})")

    def _values(self, scope: ResourceScope, settings: Mapping[str, str]) -> TopicConfig:
        values: dict[str, object] = {}
        for key in self._config.keys.of_scope(scope):
            by_broker = key.broker_defaults[0].key if key.broker_defaults else None
            values[key.name] = key.default if by_broker is None else self._config[by_broker]
        for name, text in settings.items():
            if self._config.keys.find(name, scope) is not None:
                values[name] = self._check_value(scope, name, text)
        return TopicConfig(values)

    def parsed(self, scope: ResourceScope, name: str, settings: Mapping[str, str]) -> TopicConfig:
        """Return the typed configuration of a resource; settings that are not valid are logged."""
        usable: dict[str, str] = {}
        for key, text in settings.items():
            try:
                self._check_value(scope, key, text)
            except (InvalidConfig, InvalidRequest) as error:
                _log.warning("the configuration of the %s %r is not used: %s", TITLES[scope], name, error)
            else:
                usable[key] = text
        return self._values(scope, usable)
