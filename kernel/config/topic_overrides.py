"""The configuration that is set for a topic, over the broker's defaults: checked, typed, with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tidelog.kernel.config.config import Config
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.topic_config import TopicConfig, TopicDefault
from tidelog.kernel.errors import InvalidTopicConfig

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


def topic_config(config: Config, overrides: Mapping[str, str | None]) -> TopicConfig:
    """Return the configuration of a topic that sets `overrides`, text in Kafka's notation.

    Raises:
        InvalidTopicConfig: lists every unknown key and every bad value.
    """
    built, problems = checked_topic_config(config, overrides)
    if problems:
        raise InvalidTopicConfig(" ".join(problems))
    return built


def checked_topic_config(
    config: Config, overrides: Mapping[str, str | None]
) -> tuple[TopicConfig, list[str]]:
    """Return the configuration as far as `overrides` are valid, and a sentence about each that is not.

    For existing topics: one that was created while some plugin was installed still opens without it.
    """
    if not overrides:
        return config.default_topic_config, []
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
    return TopicConfig(values), problems


def postponed(config: Config, overrides: Mapping[str, str]) -> list[str]:
    """Return a sentence for each setting of a topic whose effect is not implemented yet."""
    found = ((name, config.keys.find(name, "topic")) for name in overrides)
    return [f"{name} is kept, but {key.not_yet}" for name, key in found if key is not None and key.not_yet]


def topic_config_entries(config: Config, overrides: Mapping[str, str | None]) -> list[TopicConfigEntry]:
    """Return every topic key with its value for a topic that sets `overrides`, in the order of the keys.

    Overrides of unsupported keys, accepted because they ask for nothing, come last.
    """
    given = {
        key.name if (key := config.keys.find(name, "topic")) else name: text
        for name, text in overrides.items()
    }
    entries = [_entry(default, given.pop(name, None)) for name, default in config.topic_defaults.items()]
    return entries + [TopicConfigEntry(name, text, "topic") for name, text in given.items()]


MAX_SUGGESTIONS = 10
LONG_NAME = 100
"""Suggesting the most similar key takes long for many names, and for long ones."""


class _UnknownKeyError(ValueError):
    """A whole sentence, which begins as Apache Kafka's does: tools look for it."""


def _refuse_unknown(known: ConfigKeys, name: str, text: str | None, *, suggest: bool) -> None:
    """Accept a setting of an unsupported key whose value has no effect here.

    Raises:
        ValueError: any other; the message is the reason.
    """
    if text is None:
        raise ValueError("has no value")
    judgement = known.unsupported.judge(name, text, "topic")
    if judgement is None:
        nearest = known.nearest(name, "topic") if suggest else None
        raise _UnknownKeyError(
            f"Unknown topic config name: {name}" + (f" (did you mean {nearest}?)" if nearest else "")
        )
    if not judgement.accepted:
        raise ValueError(judgement.reason)


def _entry(default: TopicDefault, override: str | None) -> TopicConfigEntry:
    key = default.key
    if override is not None:
        return TopicConfigEntry(key.name, None if key.secret else override, "topic", secret=key.secret)
    value = None if key.secret else key.type.format(default.value)
    if default.broker_key is None:
        return TopicConfigEntry(key.name, value, "default", secret=key.secret)
    return TopicConfigEntry(key.name, value, "broker", default.broker_key.name, key.secret)
