"""Configuration: keys with Kafka's own names, sources in order of strength, typed values with origins.

Strongest first: `--set key=value`, `TIDELOG_*` environment variables, a file, the key's default.
"""

from __future__ import annotations

from tidelog.kernel.config import keys
from tidelog.kernel.config.config import Config
from tidelog.kernel.config.key import BrokerDefault, ConfigKey, check_pool_size, declared_keys
from tidelog.kernel.config.listeners import (
    Listener,
    ServedListener,
    format_address,
    parse_advertised_listeners,
    parse_listeners,
)
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.sinks import SinkConfig, SinkName
from tidelog.kernel.config.sources import Origin, OriginKind, Sources, read_sources, settings_from_mapping
from tidelog.kernel.config.tables import TableConfig
from tidelog.kernel.config.topic_config import TopicConfig
from tidelog.kernel.config.topic_overrides import (
    check_conflicts,
    checked_topic_config,
    topic_config,
)
from tidelog.kernel.config.types import (
    Alter,
    Password,
    Scope,
    ValueType,
    boolean,
    choice,
    comma_list,
    double,
    integer,
    limits_by_host,
    long,
    names_by_listener,
    nullable,
    optional,
    or_unlimited,
    password,
    string,
)
from tidelog.kernel.config.unsupported import UnsupportedKey

__all__ = [
    "Alter",
    "BrokerDefault",
    "Config",
    "ConfigKey",
    "ConfigKeys",
    "Listener",
    "Origin",
    "OriginKind",
    "Password",
    "Scope",
    "ServedListener",
    "SinkConfig",
    "SinkName",
    "Sources",
    "TableConfig",
    "TopicConfig",
    "UnsupportedKey",
    "ValueType",
    "boolean",
    "check_conflicts",
    "check_pool_size",
    "checked_topic_config",
    "choice",
    "comma_list",
    "declared_keys",
    "double",
    "format_address",
    "integer",
    "keys",
    "limits_by_host",
    "long",
    "names_by_listener",
    "nullable",
    "optional",
    "or_unlimited",
    "parse_advertised_listeners",
    "parse_listeners",
    "password",
    "read_sources",
    "settings_from_mapping",
    "string",
    "topic_config",
]
