"""Configuration of groups and of subscriptions to client metrics: which changes of it are valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tidelog.kernel.config import Alter, Config, TopicConfig
from tidelog.kernel.config.resource_settings import TITLES, ResourceSettings
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest
from tidelog.kernel.metadata import ConfigOwner, MetadataDelta, MetadataImage, ResourceScope
from tidelog.kernel.pace import Pace


class ResourceConfigRules:
    """Decides changes of what is set for resources."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = ResourceSettings(config)

    async def decide(
        self, image: MetadataImage, scope: ResourceScope, changes: Sequence[tuple[str, Alter]]
    ) -> tuple[MetadataDelta, list[BrokerError | None]]:
        """Return the change, and for each resource why it is refused."""
        results: list[BrokerError | None] = []
        altered: dict[ConfigOwner, Mapping[str, str]] = {}
        pace = Pace()
        for name, alter in changes:
            resource = ConfigOwner(scope, name)
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
            self._settings.check_value(scope, name, after[name])
        if changed or len(after) < len(before):
            self._check_limits(scope, self._settings.values(scope, after))

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
