"""A topic's configuration: its own settings over the broker's defaults, typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

import attrs

from tidelog.kernel.config import keys
from tidelog.kernel.config.kafka_keys import kafka_topic_key
from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.sources import DEFAULT_ORIGIN
from tidelog.kernel.errors import InvalidTopicConfig

if TYPE_CHECKING:
    from tidelog.kernel.config.config import Config
    from tidelog.kernel.config.resolve import Resolved

T = TypeVar("T")


def _compacts(config: TopicConfig) -> bool:
    return "compact" in config.cleanup_policy


@attrs.frozen
class TopicConfig:
    """Every topic key's value for one topic.

    The kernel's keys are fields; keys that plugins add are read as `topic_config[KEY]`, which works for all.
    `is_compacted`: `cleanup_policy` has `compact`, so every record needs a key.
    """

    segment_bytes: int = keys.SEGMENT_BYTES.default
    segment_ms: int = keys.SEGMENT_MS.default
    segment_jitter_ms: int = keys.SEGMENT_JITTER_MS.default
    segment_index_bytes: int = keys.SEGMENT_INDEX_BYTES.default
    index_interval_bytes: int = keys.INDEX_INTERVAL_BYTES.default
    index_format: str = keys.INDEX_FORMAT.default
    file_delete_delay_ms: int = keys.FILE_DELETE_DELAY_MS.default
    flush_messages: int = keys.FLUSH_MESSAGES.default
    flush_ms: int = keys.FLUSH_MS.default
    preallocate: bool = keys.PREALLOCATE.default
    max_message_bytes: int = keys.MAX_MESSAGE_BYTES.default
    message_timestamp_type: str = keys.MESSAGE_TIMESTAMP_TYPE.default
    message_timestamp_before_max_ms: int = keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default
    message_timestamp_after_max_ms: int = keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default
    cleanup_policy: tuple[str, ...] = keys.CLEANUP_POLICY.default
    retention_ms: int = keys.RETENTION_MS.default
    retention_bytes: int = keys.RETENTION_BYTES.default
    delete_retention_ms: int = keys.DELETE_RETENTION_MS.default
    min_compaction_lag_ms: int = keys.MIN_COMPACTION_LAG_MS.default
    max_compaction_lag_ms: int = keys.MAX_COMPACTION_LAG_MS.default
    min_cleanable_dirty_ratio: float = keys.MIN_CLEANABLE_DIRTY_RATIO.default
    extra: Mapping[str, object] = attrs.field(factory=dict[str, object], hash=False)
    is_compacted: bool = attrs.field(init=False, default=attrs.Factory(_compacts, takes_self=True))

    def __getitem__(self, key: ConfigKey[T]) -> T:
        field = _FIELDS.get(key.name)
        return cast("T", self.extra.get(key.name, key.default) if field is None else getattr(self, field))


_FIELDS = {
    key.name: field
    for key in keys.KERNEL_KEYS
    if key.scope == "topic" and (field := key.name.replace(".", "_")) in attrs.fields_dict(TopicConfig)
}

TopicConfigSource = Literal["topic", "broker", "default"]


class TopicConfigEntry(NamedTuple):
    """A topic key's value in Kafka's notation, and where it comes from.

    `broker_key` is the broker key that gives it when `source` is "broker". `value` is None for a secret.
    """

    name: str
    value: str | None
    source: TopicConfigSource
    broker_key: str | None = None
    secret: bool = False


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


def topic_config(config: Config, overrides: Mapping[str, str | None]) -> TopicConfig:
    """The configuration of a topic that sets `overrides`, text in Kafka's notation.

    Raises:
        InvalidTopicConfig: lists every unknown key and every bad value.
    """
    if not overrides:
        return config.default_topic_config
    built, problems = checked_topic_config(config, overrides)
    if problems:
        raise InvalidTopicConfig(" ".join(problems))
    return built


def checked_topic_config(
    config: Config, overrides: Mapping[str, str | None]
) -> tuple[TopicConfig, list[str]]:
    """The configuration of a topic as far as `overrides` are valid, and a sentence about each that is not.

    For topics that are there already: one that was created while some plugin was installed still opens
    without it.
    """
    values = {name: default.value for name, default in config.topic_defaults.items()}
    problems: list[str] = []
    for name, text in overrides.items():
        key = config.keys.find(name, "topic")
        try:
            if key is None or text is None:
                suggest = len(problems) < MAX_SUGGESTIONS and len(name) < LONG_NAME
                _refuse_unknown(config.keys, name, text, suggest=suggest)
            else:
                values[key.name] = key.type.parse(text)
        except ValueError as error:
            if isinstance(error, _UnknownKeyError):
                problems.append(str(error))
                continue
            shown = name if text is None or (key and key.secret) else f"{name} = {text!r}"
            problems.append(f"{shown}: {error}.")
    return _build(values), problems


def changed_topic_config(config: Config, before: Mapping[str, str], after: Mapping[str, str]) -> TopicConfig:
    """The configuration of a topic whose settings become `after`; only what differs from `before` is checked.

    So a setting that was kept from another broker, and means nothing here, does not hinder any change.

    Raises:
        InvalidTopicConfig: lists every unknown key and every bad value among what is new.
    """
    topic_config(config, {name: text for name, text in after.items() if before.get(name) != text})
    return checked_topic_config(config, after)[0]


def postponed(config: Config, overrides: Mapping[str, str]) -> list[str]:
    """A sentence for each setting of a topic whose effect this broker has no part for yet."""
    found = ((name, config.keys.find(name, "topic")) for name in overrides)
    return [f"{name} is kept, but {key.not_yet}" for name, key in found if key is not None and key.not_yet]


def topic_config_entries(config: Config, overrides: Mapping[str, str | None]) -> list[TopicConfigEntry]:
    """Every topic key with its value for a topic that sets `overrides`, in the order of the keys.

    Overrides that only Kafka has a part for, accepted because they ask for nothing, come last.
    """
    given = {
        key.name if (key := config.keys.find(name, "topic")) else name: text
        for name, text in overrides.items()
    }
    entries = [_entry(default, given.pop(name, None)) for name, default in config.topic_defaults.items()]
    return entries + [TopicConfigEntry(name, text, "topic") for name, text in given.items()]


def resolve_topic_defaults(resolved: Resolved, known: ConfigKeys) -> TopicDefaults:
    """The defaults of all topic keys, from the broker keys that give them."""
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
    config = _build({name: default.value for name, default in defaults.items()})
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
    in_unit = value if winner.factor == 1 else cast("int", value) * winner.factor
    return TopicDefault(key, in_unit, winner.key if _was_set(winner.key, resolved) else None)


def _was_set(key: ConfigKey[object], resolved: Resolved) -> bool:
    return resolved.origins.get(key.name, DEFAULT_ORIGIN) is not DEFAULT_ORIGIN


MAX_SUGGESTIONS = 10
LONG_NAME = 100
"""To find the key that a name is nearest to takes long for many names, and for long ones."""


class _UnknownKeyError(ValueError):
    """A whole sentence, which begins as Apache Kafka's does: tools look for it."""


def _refuse_unknown(known: ConfigKeys, name: str, text: str | None, *, suggest: bool) -> None:
    """Accept a setting that Kafka knows and that asks for nothing here.

    Raises:
        ValueError: any other; the message is the reason.
    """
    if text is None:
        raise ValueError("has no value")
    kafka_key = kafka_topic_key(name, text)
    if kafka_key is None:
        nearest = known.nearest(name, "topic") if suggest else None
        raise _UnknownKeyError(
            f"Unknown topic config name: {name}" + (f" (did you mean {nearest}?)" if nearest else "")
        )
    if not kafka_key.accepted:
        raise ValueError(kafka_key.reason)


def _entry(default: TopicDefault, override: str | None) -> TopicConfigEntry:
    key = default.key
    if override is not None:
        return TopicConfigEntry(key.name, None if key.secret else override, "topic", secret=key.secret)
    value = None if key.secret else key.type.format(default.value)
    if default.broker_key is None:
        return TopicConfigEntry(key.name, value, "default", secret=key.secret)
    return TopicConfigEntry(key.name, value, "broker", default.broker_key.name, key.secret)


def _build(values: Mapping[str, object]) -> TopicConfig:
    fields = {field: values[name] for name, field in _FIELDS.items()}
    extra = {name: value for name, value in values.items() if name not in _FIELDS}
    build = cast("Callable[..., TopicConfig]", TopicConfig)
    return build(**fields, extra=extra)
