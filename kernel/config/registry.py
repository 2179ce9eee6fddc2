"""The set of keys that may be set: the kernel's and those of plugins, found by name, alias or likeness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import get_args

import attrs

from tidelog.kernel.config.key import ConfigKey, environment_variable
from tidelog.kernel.config.keys import (
    BROKER_COMPRESSION_TYPE,
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    KAFKA_CLEANUP_POLICIES,
    KAFKA_COMPRESSION_TYPES,
    KERNEL_KEYS,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LOG_CLEANUP_POLICY,
    SECURITY_PROTOCOLS,
)
from tidelog.kernel.config.listener_keys import listener_key, nearest_listener_key
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS, SinkName
from tidelog.kernel.config.tables import TableName, section_of
from tidelog.kernel.config.types import (
    Scope,
    ValueType,
    choice,
    comma_list,
    names_by_listener,
    nearest_name,
)
from tidelog.kernel.config.unsupported import Judgement, UnsupportedKey, UnsupportedKeys
from tidelog.kernel.errors import PluginError


class ConfigKeys:
    """Broker keys and topic keys, each by its name and its aliases; `unsupported` are those nothing reads.

    `sink_kinds` has the keys of each kind of sink, by their short names, `table_keys` those of tables by
    their section, as they are declared.
    """

    def __init__(
        self,
        added: Iterable[ConfigKey[object]] = (),
        unsupported: Iterable[UnsupportedKey] = (),
        cleanup_policies: Iterable[str] = (),
        compression_codecs: Iterable[str] = (),
        sink_kinds: Mapping[str, Sequence[ConfigKey[object]]] | None = None,
        security_protocols: Iterable[str] = (),
    ) -> None:
        """Take the kernel's keys, `added` ones, those that nothing here reads, and those of kinds of sinks.

        `cleanup.policy` and `log.cleanup.policy` take the names `cleanup_policies` beside Apache Kafka's,
        `compression.type` the names `compression_codecs`, and `listener.security.protocol.map` the names
        `security_protocols`.

        Raises:
            PluginError: two different keys claim one name.
        """
        self._by_scope: dict[Scope, dict[str, ConfigKey[object]]] = {scope: {} for scope in get_args(Scope)}
        self._by_variable: dict[str, ConfigKey[object]] = {}
        self._keys: list[ConfigKey[object]] = []
        self.unsupported = UnsupportedKeys(unsupported)
        self.sink_kinds = sink_kinds or {}
        self.table_keys: dict[str, list[ConfigKey[object]]] = {}
        policies = comma_list(
            *dict.fromkeys((*KAFKA_CLEANUP_POLICIES, *cleanup_policies)), repeated="dropped"
        )
        codecs = choice(*dict.fromkeys((*KAFKA_COMPRESSION_TYPES, *compression_codecs)))
        named: dict[int, ValueType[object]] = {
            id(CLEANUP_POLICY): policies,
            id(LOG_CLEANUP_POLICY): policies,
            id(BROKER_COMPRESSION_TYPE): codecs,
            id(COMPRESSION_TYPE): codecs,
            id(LISTENER_SECURITY_PROTOCOL_MAP): names_by_listener(
                LISTENER_SECURITY_PROTOCOL_MAP.type.allowed,
                *dict.fromkeys((*SECURITY_PROTOCOLS, *security_protocols)),
            ),
        }
        for key in (*KERNEL_KEYS, *added):
            known = named.get(id(key))
            section = section_of(key)
            if section is None:
                self._add(attrs.evolve(key, type=known) if known else key)
            else:
                self.table_keys.setdefault(section, []).append(key)

    def with_sinks(self, sinks: Sequence[SinkName]) -> ConfigKeys:
        """Return these keys and those of configured sinks, by full names; a sink of no known kind has none.

        Raises:
            PluginError: a key of a sink has the name or the environment variable of another one.
        """
        return self._with(
            sink.full_key(key)
            for sink in sinks
            if sink.kind in self.sink_kinds
            for key in (*COMMON_SINK_KEYS, *self.sink_kinds[sink.kind])
        )

    def with_tables(self, tables: Sequence[TableName]) -> ConfigKeys:
        """Return these keys and those of configured tables, by full names.

        Raises:
            PluginError: a key of a table has the name or the environment variable of another one.
        """
        return self._with(table.full_key(key) for table in tables for key in self.table_keys[table.section])

    def _with(self, keys: Iterable[ConfigKey[object]]) -> ConfigKeys:
        added = list(keys)
        if not added:
            return self
        extended = copy(self)
        extended._by_scope = {scope: dict(known) for scope, known in self._by_scope.items()}
        extended._by_variable, extended._keys = dict(self._by_variable), list(self._keys)
        for key in added:
            extended._add(key)
        return extended

    def __iter__(self) -> Iterator[ConfigKey[object]]:
        return iter(self._keys)

    def __contains__(self, key: ConfigKey[object]) -> bool:
        return self.find(key.name, key.scope) == key

    def of_scope(self, scope: Scope) -> Iterator[ConfigKey[object]]:
        """Return the keys of one scope, in the order in which they were added."""
        return (key for key in self._keys if key.scope == scope)

    def find(self, name: str, scope: Scope) -> ConfigKey[object] | None:
        """Return the key of that name or alias, also one of a single listener."""
        return self._by_scope[scope].get(name) or (self.of_listener(name) if scope == "broker" else None)

    def of_listener(self, name: str) -> ConfigKey[object] | None:
        """Return the key of a single listener that has this name."""
        return listener_key(name, self._by_scope["broker"])

    def find_variable(self, variable: str) -> tuple[ConfigKey[object], str] | None:
        """Return the broker key that an environment variable sets, and by which of its names."""
        key = self._by_variable.get(variable)
        if key is None:
            return None
        names = (key.name, *key.aliases)
        return key, next(name for name in names if environment_variable(name) == variable)

    def dynamic_names(self) -> frozenset[str]:
        """Return the names of the broker keys that may be set while the broker runs."""
        return frozenset(key.name for key in self.of_scope("broker") if key.dynamic)

    def nearest(self, name: str, scope: Scope) -> str | None:
        """Return the valid name that is most like a wrong one, None when none is like it."""
        return self._nearest_of_listener(name, scope) or nearest_name(name, self._by_scope[scope])

    def judge(self, name: str, text: str, scope: Scope) -> Judgement | None:
        """Return the decision about the setting of a key that nothing reads.

        None for a name that nothing describes, also for a misspelt one of a listener: `nearest` has the right
        one.
        """
        return None if self._nearest_of_listener(name, scope) else self.unsupported.judge(name, text, scope)

    def _nearest_of_listener(self, name: str, scope: Scope) -> str | None:
        return nearest_listener_key(name, self._by_scope[scope]) if scope == "broker" else None

    def _add(self, key: ConfigKey[object]) -> None:
        names = self._by_scope[key.scope]
        # Two plugins may declare the same key alike, such as one that both read.
        if names.get(key.name) == key:
            return
        for name in (key.name, *key.aliases):
            if name in names:
                raise PluginError(
                    f"The {key.scope} configuration key {name!r} is declared twice, differently."
                )
            names[name] = key
            if key.scope == "broker":
                other = self._by_variable.setdefault(environment_variable(name), key)
                if other is not key:
                    raise PluginError(
                        f"The configuration keys {other.name!r} and {name!r} would both be set by the "
                        f"environment variable {environment_variable(name)}: one of the two plugins has to "
                        "rename its key."
                    )
        self._keys.append(key)
