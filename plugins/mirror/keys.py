"""Configuration keys of mirrors: tables `[mirrors.NAME]`."""

from __future__ import annotations

import re
from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import (
    ValueType,
    boolean,
    choice,
    comma_list,
    integer,
    long,
    nullable,
    short,
    split_list,
    string,
)
from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regexes import Regex, compile_regex

SECTION: Final = "mirrors"
KEEP: Final = "keep"
HASH: Final = "hash"
EARLIEST: Final = "earliest"
LATEST: Final = "latest"

NOT_FOLLOWED: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.difference.max.ms",
    "message.timestamp.type",
    "min.insync.replicas",
    "remote.storage.enable",
    "unclean.leader.election.enable",
)
"""Keys of topics that belong to a cluster and not to its records. A copy keeps the source's timestamps, so it
is of the type CreateTime whatever the source is."""


def _name_patterns() -> ValueType[tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        patterns = split_list(text)
        for pattern in patterns:
            compiled_pattern(pattern)
        return patterns

    return ValueType(
        "list", "names, or regular expressions in RE2's syntax that match whole names", parse, ",".join
    )


def compiled_pattern(text: str) -> Regex:
    """Return a pattern of names; raises ValueError."""
    try:
        return compile_regex(text)
    except InvalidRegularExpression as error:
        raise ValueError(f"has the pattern {text!r}: {error}") from None


def _rename_pattern() -> ValueType[re.Pattern[str]]:
    def parse(text: str) -> re.Pattern[str]:
        try:
            return re.compile(text.strip())
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from None

    return ValueType("string", "a regular expression", parse, lambda value: str(value.pattern))


BOOTSTRAP_SERVERS = ConfigKey(
    name="mirrors.NAME.bootstrap.servers",
    type=string(non_empty=True),
    default="",
    required=True,
    documentation="Brokers of the source, as `host:port`, several with commas; or the ZooKeeper in which "
    "they are registered, as `zookeeper://host:port,host:port/path`.",
)
TOPICS = ConfigKey(
    name="mirrors.NAME.topics",
    type=_name_patterns(),
    default=(".*",),
    documentation="The topics that are copied, also those that are created later. Internal topics are never "
    "among them.",
)
EXCLUDE_TOPICS = ConfigKey(
    name="mirrors.NAME.exclude.topics",
    type=_name_patterns(),
    default=(r".*[\-\.]internal", r".*\.replica", "__.*"),
    documentation="Topics that are not copied though `topics` has them; the default is that of "
    "MirrorMaker 2.",
)
RENAME_PREFIX = ConfigKey(
    name="mirrors.NAME.rename.prefix",
    type=string(),
    default="",
    documentation="What the names of copies begin with, such as `us.`; without it they are named as the "
    "source's topics.",
)
RENAME_PATTERN = ConfigKey(
    name="mirrors.NAME.rename.pattern",
    type=nullable(_rename_pattern()),
    default=None,
    documentation="Names that match as a whole become `rename.replacement`.",
)
RENAME_REPLACEMENT = ConfigKey(
    name="mirrors.NAME.rename.replacement",
    type=string(),
    default="",
    documentation=r"The name of the copy of a topic that `rename.pattern` matches; `\1` is its first group.",
)
PARTITIONS = ConfigKey(
    name="mirrors.NAME.partitions",
    type=choice(KEEP, HASH),
    default=KEEP,
    documentation="`keep`: records stay in the partition of the same number, and batches are copied unread. "
    "`hash`: records are assigned by their key, as producers do, so that the copy may have another number of "
    "partitions; offsets of groups cannot be translated then.",
)
START = ConfigKey(
    name="mirrors.NAME.start",
    type=choice(EARLIEST, LATEST),
    default=EARLIEST,
    documentation="Where the copy of a topic begins that was never copied: with its first record, or behind "
    "its last one.",
)
INCLUDE_MIRRORED = ConfigKey(
    name="mirrors.NAME.include.mirrored",
    type=boolean(),
    default=True,
    documentation="Copy also what other mirrors have copied into the source, but for what came from this "
    "target. In a ring of three or more clusters it has to be false.",
)
REPLICATION_FACTOR = ConfigKey(
    name="mirrors.NAME.replication.factor",
    type=short(-1),
    default=-1,
    documentation="The replication factor of topics that are created; -1 is the target's default.",
)
FOLLOW_CONFIGS = ConfigKey(
    name="mirrors.NAME.follow.configs",
    type=boolean(),
    default=True,
    documentation="Configure copies as their topics are, when they are created and when that changes.",
)
EXCLUDE_CONFIGS = ConfigKey(
    name="mirrors.NAME.exclude.configs",
    type=comma_list(),
    default=NOT_FOLLOWED,
    documentation="Keys of topics that are not followed.",
)
GROUPS = ConfigKey(
    name="mirrors.NAME.groups",
    type=_name_patterns(),
    default=(),
    documentation="The groups whose committed offsets are translated and committed in the target.",
)
EXCLUDE_GROUPS = ConfigKey(
    name="mirrors.NAME.exclude.groups",
    type=_name_patterns(),
    default=("console-consumer-.*", "connect-.*", "__.*"),
    documentation="Groups that are left out though `groups` has them; the default is that of MirrorMaker 2.",
)
REFRESH_INTERVAL_MS = ConfigKey(
    name="mirrors.NAME.refresh.interval.ms",
    type=long(1),
    default=30_000,
    documentation="How often topics, partitions and configuration of the source are compared, in "
    "milliseconds.",
)
GROUP_INTERVAL_MS = ConfigKey(
    name="mirrors.NAME.group.interval.ms",
    type=long(1),
    default=10_000,
    documentation="How often the offsets of groups are synchronized, in milliseconds.",
)
COMMIT_INTERVAL_MS = ConfigKey(
    name="mirrors.NAME.commit.interval.ms",
    type=integer(1, 30_000),
    default=1_000,
    documentation="How long a transaction is open, in milliseconds: readers of committed records get them "
    "that much later, and each transaction adds a marker to every partition that it has copied.",
)
FETCH_MAX_BYTES = ConfigKey(
    name="mirrors.NAME.fetch.max.bytes",
    type=integer(1),
    default=4 * 1024 * 1024,
    documentation="Bytes that are fetched at once. About three times as many are in memory.",
)
RETRY_BACKOFF_MS = ConfigKey(
    name="mirrors.NAME.retry.backoff.ms",
    type=long(1),
    default=1_000,
    documentation="How long a mirror, or a partition of it, that failed waits before it is tried again, in "
    "milliseconds; each failure that follows doubles the time.",
)
RETRY_BACKOFF_MAX_MS = ConfigKey(
    name="mirrors.NAME.retry.backoff.max.ms",
    type=long(1),
    default=60_000,
    documentation="The longest time that a mirror that keeps failing waits, in milliseconds.",
)
REQUEST_TIMEOUT_MS = ConfigKey(
    name="mirrors.NAME.request.timeout.ms",
    type=integer(1),
    default=30_000,
    documentation="How long a broker may take to respond, in milliseconds.",
)
