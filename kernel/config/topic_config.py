"""The configuration of a topic: a typed value for each topic key, and the defaults from the broker's keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, cast

import attrs

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.resolve import Resolved
from tidelog.kernel.config.sources import DEFAULT_ORIGIN

T = TypeVar("T")


@attrs.frozen(hash=False)
class TopicConfig:
    """Values of topic keys by name: `topic_config[KEY]` has the type of the key, of whichever plugin it is.

    A key that is missing in `values` has its own default. A part that needs values often has an object of
    its own with them, such as `PartitionConfig`, which `derive` makes once for all partitions of a topic.
    """

    values: Mapping[str, object] = attrs.field(factory=dict[str, object])
    _derived: dict[object, object] = attrs.field(
        init=False, factory=dict[object, object], eq=False, repr=False
    )

    def __getitem__(self, key: ConfigKey[T]) -> T:
        return cast("T", self.values.get(key.name, key.default))

    def derive(self, make: Callable[[TopicConfig], T]) -> T:
        """Return `make(self)`, the same object for every call with this `make`."""
        # Kept with the configuration, which all partitions of a topic share: thousands of them have one
        # object.
        found = self._derived.get(make)
        if found is None:
            found = self._derived[make] = make(self)
        return cast("T", found)

    def __or__(self, values: Mapping[str, object]) -> TopicConfig:
        """Return the same configuration with other values for some keys; nothing checks them."""
        return TopicConfig({**self.values, **values})


class TopicDefault(NamedTuple):
    """What a topic has that does not set `key`, and the broker key that was set to make it so."""

    key: ConfigKey[object]
    value: object
    broker_key: ConfigKey[object] | None


class TopicDefaults(NamedTuple):
    """The defaults of all topic keys, by name and as the configuration of a topic that sets none."""

    by_name: Mapping[str, TopicDefault]
    config: TopicConfig
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def resolve_topic_defaults(resolved: Resolved, known: ConfigKeys) -> TopicDefaults:
    """Return the defaults of all topic keys, from the broker keys that give them."""
    defaults: dict[str, TopicDefault] = {}
    problems: list[str] = []
    warnings: list[str] = []
    for key in known.of_scope("topic"):
        defaults[key.name] = default = _default(key, resolved, warnings)
        try:
            key.type.parse(key.type.format(default.value))
        except ValueError as error:
            source = default.broker_key.name if default.broker_key else "its default"
            problems.append(f"{key.name}, as set by {source}, {error}.")
    config = TopicConfig({name: default.value for name, default in defaults.items()})
    return TopicDefaults(defaults, config, tuple(problems), tuple(warnings))


def _default(key: ConfigKey[object], resolved: Resolved, warnings: list[str]) -> TopicDefault:
    winner = next(
        (default for default in key.broker_defaults if resolved.values.get(default.key.name) is not None),
        None,
    )
    if winner is None:
        return TopicDefault(key, key.default, None)
    for other in key.broker_defaults[key.broker_defaults.index(winner) + 1 :]:
        if _was_set(other.key, resolved):
            origin = resolved.origins[other.key.name]
            warnings.append(f"{other.key} ({origin}) does nothing, since {winner.key} is set.")
    value = resolved.values[winner.key.name]
    # Of times in coarser units -1 means no limit in any unit.
    in_unit = value if winner.factor == 1 or value == -1 else cast("int", value) * winner.factor
    return TopicDefault(key, in_unit, winner.key if _was_set(winner.key, resolved) else None)


def _was_set(key: ConfigKey[object], resolved: Resolved) -> bool:
    return resolved.origins.get(key.name, DEFAULT_ORIGIN) is not DEFAULT_ORIGIN
