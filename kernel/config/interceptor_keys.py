"""Configuration keys of every interceptor: tables `[interceptors.NAME]`, and Kafka's keys of policies.

A kind of interceptor declares further keys of these tables, whose names begin with its own:
`interceptors.NAME.masking.fields`.
"""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.sinks import TopicPattern, topic_pattern
from tidelog.kernel.config.types import choice, class_name, comma_list, long, nullable, string

SECTION: Final = "interceptors"
FAIL: Final = "fail"
PASS: Final = "pass"  # noqa: S105 - no password

TYPE = ConfigKey(
    name="interceptors.NAME.type",
    type=string(non_empty=True),
    default="",
    required=True,
    documentation="The kind of interceptor, which a plugin offers; `tidelog plugins` lists them.",
    chooses="interceptor",
)
TOPICS_REGEX = ConfigKey[TopicPattern | None](
    name="interceptors.NAME.topics.regex",
    type=nullable(topic_pattern()),
    default=None,
    documentation="The topics whose batches and changes it gets: all whose whole name matches, by default "
    "every topic. Internal topics are never among them.",
)
LISTENERS = ConfigKey(
    name="interceptors.NAME.listeners",
    type=comma_list(),
    default=(),
    documentation="The names of the listeners whose clients' batches it gets, by default all. Changes of "
    "topics it gets whatever the listener is.",
)
ON_FAILURE = ConfigKey(
    name="interceptors.NAME.on.failure",
    type=choice(FAIL, PASS),
    default=FAIL,
    documentation="What becomes of a batch, fetch or change when the interceptor fails or takes too long: "
    "`fail` refuses it, `pass` continues as if the interceptor were not there.",
)
TIMEOUT_MS = ConfigKey(
    name="interceptors.NAME.timeout.ms",
    type=long(1),
    default=5_000,
    documentation="How long it may take for the records of one batch, in milliseconds; then it has failed.",
)
CREATE_TOPIC_POLICY_CLASS_NAME = ConfigKey(
    name="create.topic.policy.class.name",
    type=nullable(class_name()),
    default=None,
    documentation="The kind of interceptor that is asked before a topic is created. It has no table, and so "
    "the defaults of its keys.",
    chooses="interceptor",
)
ALTER_CONFIG_POLICY_CLASS_NAME = ConfigKey(
    name="alter.config.policy.class.name",
    type=nullable(class_name()),
    default=None,
    documentation="The kind of interceptor that is asked before the configuration of a topic is changed. It "
    "has no table, and so the defaults of its keys.",
    chooses="interceptor",
)
