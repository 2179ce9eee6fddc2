"""The broker's configuration: values by key, typed, each with its origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

from tidelog.kernel.config import checks, keys
from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.listener_keys import PREFIX, name_for_listener, name_for_mechanism
from tidelog.kernel.config.listeners import ServedListener
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.resolve import Resolved, has_effect, refuse, resolve
from tidelog.kernel.config.sinks import SinkConfig, configured_sinks
from tidelog.kernel.config.sources import (
    DEFAULT_ORIGIN,
    Layer,
    Origin,
    OriginKind,
    Setting,
    Sources,
    settings_from_mapping,
)
from tidelog.kernel.config.tables import TableConfig, configured_tables
from tidelog.kernel.config.topic_config import TopicDefaults, resolve_topic_defaults

T = TypeVar("T")

DEFAULT_CODEC = "kafka"
"""The wire protocol of a listener that `listener.codec.map` does not name."""


class Config:
    """All broker keys with a valid value each: `config[keys.NUM_PARTITIONS]`.

    Only `set_dynamic` changes it, and only keys that are `dynamic`: the value of any other may be kept.

    `warnings` report settings to the user that were accepted but have no effect. `sinks` are the sinks that
    are configured. `dynamic_checks` are further checks of a configuration that is to be set while the broker
    runs, by the parts that use it; they raise ConfigError.
    """

    def __init__(self, sources: Sources, known: ConfigKeys) -> None:
        """Check every setting of `sources`.

        Raises:
            ConfigError: lists every unknown key and every bad value.
        """
        self._sink_names = configured_sinks(sources)
        self._table_names = configured_tables(sources, known.table_keys)
        self.keys = known.with_sinks(self._sink_names).with_tables(self._table_names)
        self.dynamic_checks: list[Callable[[Config], None]] = []
        self._static_sources = sources
        self._use(sources)

    def _use(self, sources: Sources) -> None:
        # Before anything is assigned: a dynamic change that is refused leaves the configuration as it was.
        resolved, topic_defaults, self.sinks = self._check(sources)
        self.warnings: tuple[str, ...] = resolved.warnings + topic_defaults.warnings
        self.topic_defaults = topic_defaults.by_name
        self.default_topic_config = topic_defaults.config
        self._resolved = resolved
        self._values = resolved.values
        self._origins = resolved.origins
        self._sources = sources

    def _check(self, sources: Sources) -> tuple[Resolved, TopicDefaults, tuple[SinkConfig, ...]]:
        """Resolve everything, or refuse it with all its problems."""
        resolved = resolve(sources, self.keys)
        topic_defaults = resolve_topic_defaults(resolved, self.keys)
        sinks = self._sinks(resolved)
        of_sinks = tuple(problem for sink in sinks for problem in sink.problems(resolved.invalid))
        of_tables = tuple(
            problem
            for section in dict.fromkeys(name.section for name in self._table_names)
            for table in self._tables(section, resolved)
            for problem in table.problems(resolved.invalid)
        )
        refuse(resolved.problems + topic_defaults.problems + of_sinks + of_tables)
        return resolved, topic_defaults, sinks

    def _sinks(self, resolved: Resolved) -> tuple[SinkConfig, ...]:
        """Return the sinks of known kinds; others are problems already."""
        kinds = self.keys.sink_kinds
        return tuple(
            SinkConfig(name, kinds[name.kind], resolved.values, resolved.origins)
            for name in self._sink_names
            if name.kind in kinds
        )

    def tables(self, section: str) -> tuple[TableConfig, ...]:
        """Return the tables of a section that are configured, in the order of their first settings."""
        return self._tables(section, self._resolved)

    def _tables(self, section: str, resolved: Resolved) -> tuple[TableConfig, ...]:
        keys = self.keys.table_keys.get(section, ())
        return tuple(
            TableConfig(name, keys, resolved.values, resolved.origins)
            for name in self._table_names
            if name.section == section
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, object], added: Iterable[ConfigKey[object]] = ()) -> Config:
        """Set the kernel's keys and `added` ones by `values`: for a program that embeds a broker.

        Values may be text in Kafka's notation or Python's own (numbers, booleans, lists); nested mappings
        stand for dotted names.

        Raises:
            ConfigError: lists every unknown key and every bad value.
        """
        return cls(Sources().over(settings_from_mapping(values)), ConfigKeys(added))

    def with_overrides(self, values: Mapping[str, object]) -> Config:
        """Return the same with other values for some keys, stronger than all that was set before.

        Raises:
            ConfigError: lists every unknown key and every bad value.
        """
        return Config(self._sources.over(settings_from_mapping(values)), self.keys)

    def set_dynamic(self, of_broker: Mapping[str, str], of_cluster: Mapping[str, str]) -> None:
        """Replace what was set while the broker runs, which is stronger than all else.

        Raises:
            ConfigError: lists every unknown key and every bad value; nothing has changed.
        """
        self._use(self._with_dynamic(of_broker, of_cluster))

    def check_dynamic(self, of_broker: Mapping[str, str], of_cluster: Mapping[str, str]) -> None:
        """Check what `set_dynamic` would set.

        Raises:
            ConfigError: as `set_dynamic`, or one of `dynamic_checks` refuses it.
        """
        changed = Config(self._with_dynamic(of_broker, of_cluster), self.keys)
        for check in self.dynamic_checks:
            check(changed)

    def _with_dynamic(self, of_broker: Mapping[str, str], of_cluster: Mapping[str, str]) -> Sources:
        for_all = self._static_sources.over(_layer(of_cluster, OriginKind.DYNAMIC_CLUSTER))
        return for_all.over(_layer(of_broker, OriginKind.DYNAMIC_BROKER))

    def text(self, name: str) -> str:
        """Return the value of the broker key `name` in Kafka's notation, empty for an unknown key."""
        key = self.keys.find(name, "broker")
        return "" if key is None else key.type.format(self[key])

    def topic_default_text(self, name: str) -> str:
        """Return the value for topics that do not set `name`, as `text` does for broker keys."""
        default = self.topic_defaults.get(name)
        return "" if default is None else default.key.type.format(default.value)

    def __getitem__(self, key: ConfigKey[T]) -> T:
        return cast("T", self._values[key.name])

    def in_use(self, key: ConfigKey[object]) -> object:
        """Return the value of a broker key, the key's default if it is of one listener and not set."""
        return self._values.get(key.name, key.default)

    def of_listener(self, key: ConfigKey[T], listener: str) -> T:
        """Return the value for one listener: what is set for it, else for all."""
        return cast("T", self._values.get(name_for_listener(key, listener), self._values[key.name]))

    def of_listener_alone(self, key: ConfigKey[T], listener: str) -> T:
        """Return the value that is set for one listener alone; without one, the key's default."""
        return cast("T", self._values.get(name_for_listener(key, listener), key.default))

    def of_mechanism(self, key: ConfigKey[T], listener: str, mechanism: str) -> T:
        """Return the value for a SASL mechanism of a listener: what is set for it, else for the listener."""
        name = name_for_mechanism(key, listener, mechanism)
        return cast("T", self._values[name]) if name in self._values else self.of_listener(key, listener)

    def listener_keys(self) -> list[ConfigKey[object]]:
        """Return the keys that are set for single listeners."""
        names = sorted(name for name in self._values if name.startswith(PREFIX))
        keys = (self.keys.of_listener(name) for name in names)
        return [key for key in keys if key is not None]

    def origin(self, key: ConfigKey[object]) -> Origin:
        """Return where the value of a broker key comes from."""
        return self._origins[key.name]

    def is_set(self, key: ConfigKey[object]) -> bool:
        """Return whether some source sets the key, be it to its default."""
        return self._origins[key.name] is not DEFAULT_ORIGIN

    def has_effect(self, key: ConfigKey[object]) -> bool:
        """Return whether a broker key counts, as the key that it needs (`only_with`) is set so."""
        return has_effect(key, self._values)

    def served_listeners(self) -> tuple[ServedListener, ...]:
        """Return the listeners to open, each with its codec and the address to advertise."""
        advertised = {listener.name: listener for listener in self[keys.ADVERTISED_LISTENERS] or ()}
        codecs = self[keys.LISTENER_CODEC_MAP]
        return tuple(
            ServedListener(
                listener.name,
                listener.host,
                listener.port,
                security_protocol=checks.security_protocol(self._values, listener),
                codec=codecs.get(listener.name, DEFAULT_CODEC),
                advertised=advertised.get(listener.name),
            )
            for listener in checks.served_listeners(self._values)
        )


def _layer(settings: Mapping[str, str], kind: OriginKind) -> Layer:
    return tuple(Setting(name, text, Origin(kind)) for name, text in settings.items())
