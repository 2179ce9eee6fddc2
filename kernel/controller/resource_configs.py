"""Configuration of groups and of client metrics, stored in the metadata."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import trio

from tidelog.kernel.config import Alter, Config, TopicConfig
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest, StorageError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.events import BrokerConfigChanged, Event

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore
    from tidelog.kernel.seams.resource_configs import ResourceScope

_log = logging.getLogger(__name__)

_TITLES: Final[Mapping[str, str]] = {"group": "group", "client-metrics": "client metrics subscription"}


class ResourceConfigs:
    """The configurations of resources; see `tidelog.kernel.seams.resource_configs`."""

    def __init__(self, config: Config, metadata: MetadataStore) -> None:
        self._config = config
        self._metadata = metadata
        self._changing = trio.Lock()
        self._typed: dict[tuple[ResourceScope, str], TopicConfig] = {}
        self.version = 0

    def on_event(self, event: Event) -> None:
        """Compute the configurations again after a change of the broker's, which has their defaults."""
        if isinstance(event, BrokerConfigChanged):
            self._typed.clear()

    def names(self, scope: ResourceScope) -> Sequence[str]:
        """Return the resources that have a configuration."""
        return self._metadata.configured_resources(scope)

    def settings(self, scope: ResourceScope, name: str) -> Mapping[str, str]:
        """Return what is set for a resource itself."""
        return self._metadata.resource_config(scope, name)

    def find(self, scope: ResourceScope, name: str) -> TopicConfig | None:
        """Return the typed configuration of a resource, None without one."""
        typed = self._typed.get((scope, name))
        if typed is None:
            settings = self.settings(scope, name)
            if settings:
                typed = self._typed[scope, name] = self._parsed(scope, name, settings)
        return typed

    async def alter(
        self, scope: ResourceScope, name: str, alter: Alter, *, validate_only: bool = False
    ) -> None:
        """Change what is set for a resource, durably."""
        (refused,) = await self.alter_all(scope, [(name, alter)], validate_only=validate_only)
        if refused is not None:
            raise refused

    async def alter_all(
        self, scope: ResourceScope, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what is set for resources, durably, in one change; for each return why it was refused."""
        results: list[BrokerError | None] = []
        altered: dict[str, dict[str, str]] = {}
        pace = Pace()
        async with self._changing:
            for name, alter in changes:
                try:
                    after = self._altered(scope, name, alter)
                except BrokerError as error:
                    results.append(error)
                else:
                    results.append(None)
                    if not validate_only and after != self.settings(scope, name):
                        altered[name] = after
                await pace.turn()
            if not altered:
                return results
            with trio.CancelScope(shield=True):
                try:
                    await self._metadata.put_resource_configs(scope, altered)
                except (OSError, StorageError) as error:
                    refused = StorageError(f"a {_TITLES[scope]} cannot be configured: {error}")
                    return [
                        refused if name in altered else result
                        for (name, _), result in zip(changes, results, strict=True)
                    ]
            for name in altered:
                self._typed.pop((scope, name), None)
                _log.info("changed the configuration of the %s %r", _TITLES[scope], name)
            self.version += 1
        return results

    def _altered(self, scope: ResourceScope, name: str, alter: Alter) -> dict[str, str]:
        if not name:
            raise InvalidRequest(f"the name of a {_TITLES[scope]} must not be empty")
        before = dict(self.settings(scope, name))
        after = alter(before)
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
            unknown = f"Unknown {_TITLES[scope]} configuration: {name}{hint}"
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

    def _parsed(self, scope: ResourceScope, name: str, settings: Mapping[str, str]) -> TopicConfig:
        usable: dict[str, str] = {}
        for key, text in settings.items():
            try:
                self._check_value(scope, key, text)
            except (InvalidConfig, InvalidRequest) as error:
                _log.warning("the configuration of the %s %r is not used: %s", _TITLES[scope], name, error)
            else:
                usable[key] = text
        return self._values(scope, usable)
