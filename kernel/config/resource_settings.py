"""Settings of groups and of subscriptions to client metrics, typed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.kernel.config.config import Config
from tidelog.kernel.config.topic_config import TopicConfig
from tidelog.kernel.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ResourceScope

_log = logging.getLogger(__name__)

TITLES: Final[Mapping[str, str]] = {"group": "group", "client-metrics": "client metrics subscription"}
"""What a resource of each scope is called in messages."""


class ResourceSettings:
    """Reads what is set for resources, by the keys of their scope and the broker's defaults of these."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def check_value(self, scope: ResourceScope, name: str, text: str) -> object:
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
            raise InvalidConfig(f"{name} = {key.shown(text)}: {error}") from None

    def values(self, scope: ResourceScope, settings: Mapping[str, str]) -> TopicConfig:
        """Return the typed configuration of a resource.

        Raises:
            InvalidConfig: a value is not valid.
        """
        values: dict[str, object] = {}
        for key in self._config.keys.of_scope(scope):
            by_broker = key.broker_defaults[0].key if key.broker_defaults else None
            values[key.name] = key.default if by_broker is None else self._config[by_broker]
        for name, text in settings.items():
            if self._config.keys.find(name, scope) is not None:
                values[name] = self.check_value(scope, name, text)
        return TopicConfig(values)

    def parsed(self, scope: ResourceScope, name: str, settings: Mapping[str, str]) -> TopicConfig:
        """Return the typed configuration of a resource; settings that are not valid are logged."""
        usable: dict[str, str] = {}
        for key, text in settings.items():
            try:
                self.check_value(scope, key, text)
            except (InvalidConfig, InvalidRequest) as error:
                _log.warning("the configuration of the %s %r is not used: %s", TITLES[scope], name, error)
            else:
                usable[key] = text
        return self.values(scope, usable)
