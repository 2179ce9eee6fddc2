"""Hooks of the wire protocol."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey, UnsupportedKey
    from tidelog.kernel.seams.broker import PluginHooks
    from tidelog.kernel.seams.wire import WireCodec
    from tidelog.plugins.protocol_kafka.apis import KafkaApi


@hookimpl
def tidelog_hookspecs() -> Iterable[ModuleType]:
    """Declare the hooks by which other plugins add APIs and receive metrics of clients."""
    from tidelog.plugins.protocol_kafka import hookspecs

    return [hookspecs]


@hookimpl
def tidelog_kafka_apis() -> Iterable[KafkaApi]:
    """Return the built-in APIs."""
    from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN

    return BUILT_IN


@hookimpl
def tidelog_wire_codecs(plugins: PluginHooks) -> Iterable[WireCodec]:
    """Return the codec `kafka`."""
    from tidelog.plugins.protocol_kafka.codec import KafkaCodec

    return [KafkaCodec(plugins)]


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object] | UnsupportedKey]:
    """Return the keys of this plugin, and Kafka's keys that are unsupported or without meaning here."""
    from tidelog.kernel.config import declared_keys
    from tidelog.plugins.protocol_kafka import keys, keys_without_effect

    return (*declared_keys(keys), *keys_without_effect.KEPT_KEYS, *keys.UNSUPPORTED)


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the codec `kafka`."""
    from tidelog.plugins.protocol_kafka.conformance import KafkaCodecConformance

    return (KafkaCodecConformance,)
