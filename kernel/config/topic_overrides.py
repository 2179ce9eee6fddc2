"""The configuration that is set for a topic, over the broker's defaults: checked and typed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from tidelog.kernel.config.config import Config
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.topic_config import TopicConfig
from tidelog.kernel.errors import InvalidTopicConfig


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
        # One object for all such topics, with what was derived of it.
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


def check_conflicts(config: Config, topic: TopicConfig, changed: Collection[str]) -> None:
    """Check that no two values of a topic's configuration exclude each other, one of which was `changed`.

    Raises:
        InvalidTopicConfig: they do; the message begins as Apache Kafka's does.
    """
    for name in changed:
        for key in config.keys.of_scope("topic"):
            limit = config.keys.find(key.not_above, "topic") if key.not_above else None
            if limit is None or name not in (key.name, limit.name):
                continue
            value, most = cast("int", topic[key]), cast("int", topic[limit])
            if value > most:
                raise InvalidTopicConfig(
                    f"conflict topic config setting {key} ({value}) > {limit} ({most}): set both, so that "
                    "the first is not above the second"
                )


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
    judgement = known.judge(name, text, "topic")
    if judgement is None:
        nearest = known.nearest(name, "topic") if suggest else None
        raise _UnknownKeyError(
            f"Unknown topic config name: {name}" + (f" (did you mean {nearest}?)" if nearest else "")
        )
    if not judgement.accepted:
        raise ValueError(judgement.reason)
