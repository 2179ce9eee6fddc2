"""Kafka's keys that tools alter and describe, and that have no effect here: kept, with the reason.

They are those that Apache Kafka 4.4 changes while it runs, as far as no part of this broker reads them and
nothing is lost by that, and those that it lists for each topic. Where a value asks for a part that is missing
here, only the one that asks for nothing is accepted. Keys of TLS and of authentication are not kept: a user
relies on them.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from tidelog.kernel.config import (
    BrokerDefault,
    ConfigKey,
    ValueType,
    boolean,
    check_pool_size,
    double,
    integer,
    long,
)
from tidelog.kernel.config.types import LONG_MAX, short, string

_NO_THREADS: Final = "one event loop serves every connection, so there are no pools of threads"
_NO_REPLICAS: Final = "a single broker has no other replicas"
_NO_KERBEROS: Final = "this broker takes tickets, and needs none of its own"
_NO_TOKENS: Final = "this broker logs in nowhere with SASL"
_NO_TIERS: Final = "this broker has no tiered storage"
_NO_SHARE_GROUPS: Final = "share groups are not coordinated here"
_TIERS: Final = "tiered storage"


def _kept(
    name: str, kind: ValueType[object], default: object, meaning: str, why: str, *, one_broker: bool = False
) -> ConfigKey[object]:
    """Return a broker key without effect, whatever its value."""
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        documentation=f"{meaning} Kept and described, without effect: {why}.",
        dynamic=True,
        one_broker=one_broker,
        inert=why,
    )


def _kept_for_topics(
    name: str,
    kind: ValueType[object],
    default: object,
    meaning: str,
    *by_broker: ConfigKey[object],
    why: str = _NO_REPLICAS,
) -> ConfigKey[object]:
    """Return a topic key without effect, whatever its value."""
    return ConfigKey(
        name=name,
        type=kind,
        default=default,
        scope="topic",
        broker_defaults=tuple(map(BrokerDefault, by_broker)),
        documentation=f"{meaning} Kept and described, without effect: {why}.",
        inert=why,
    )


def _throttled_replicas() -> ValueType[tuple[str, ...]]:
    """Return the type of replicas as `partition:broker`, or `*` for all."""

    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
        # Kafka takes empty items, too.
        if items != ("*",) and not all(map(_REPLICA.fullmatch, items)):
            raise ValueError("is neither * nor a list of partition:broker pairs")
        return items

    return ValueType("list", "* or partition:broker pairs between commas", parse, ",".join)


_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")


def _only_false(value: str) -> bool:
    """Parse a boolean of which only false asks for nothing of a missing part."""
    if boolean().parse(value):
        raise ValueError(f"is a Kafka key that this broker has no part for ({_TIERS})")
    return False


_UNCLEAN_LEADER_ELECTION: Final = _kept(
    "unclean.leader.election.enable",
    boolean(),
    default=False,
    meaning="Whether a replica that is not in sync may become leader.",
    why=_NO_REPLICAS,
)
_MIN_INSYNC_REPLICAS: Final = _kept(
    "min.insync.replicas",
    integer(1),
    default=1,
    meaning="How many replicas must be in sync for a write with acks=all; at most the replicas there are.",
    why=_NO_REPLICAS,
)
_COPY_LAG_MS: Final = _kept(
    "log.remote.copy.lag.ms",
    long(-1),
    0,
    "How old a segment is copied to remote storage, in milliseconds.",
    _NO_TIERS,
)
_COPY_LAG_BYTES: Final = _kept(
    "log.remote.copy.lag.bytes",
    long(-1),
    -1,
    "How many bytes of a log are not copied to remote storage.",
    _NO_TIERS,
)
_OF_REPLICATION: Final = tuple(
    _kept(
        f"{side}.replication.throttled.rate",
        long(0),
        LONG_MAX,
        f"Bytes per second that are replicated by throttled replicas at the {side}.",
        _NO_REPLICAS,
    )
    for side in ("leader", "follower")
)
_LOCAL_RETENTION_MS: Final = _kept(
    "log.local.retention.ms",
    long(-2),
    -2,
    "How long segments that are in remote storage are kept locally, in milliseconds; -2: as long as the log.",
    _NO_TIERS,
)
_LOCAL_RETENTION_BYTES: Final = _kept(
    "log.local.retention.bytes",
    long(-2),
    -2,
    "How many bytes of segments that are in remote storage are kept locally; -2: as many as of the log.",
    _NO_TIERS,
)

_OF_THREADS: Final = tuple(
    attrs.evolve(_kept(name, integer(1), default, meaning, why), check_change=check_pool_size)
    for name, default, meaning, why in (
        ("background.threads", 10, "Threads for background work.", _NO_THREADS),
        ("num.io.threads", 8, "Threads that serve requests.", _NO_THREADS),
        ("num.network.threads", 3, "Threads that receive and send.", _NO_THREADS),
        ("num.replica.fetchers", 1, "Threads that replicate from each leader.", _NO_REPLICAS),
        ("remote.log.reader.threads", 10, "Threads that read from remote storage.", _NO_TIERS),
        (
            "remote.log.manager.copier.thread.pool.size",
            10,
            "Threads that copy to remote storage.",
            _NO_TIERS,
        ),
        (
            "remote.log.manager.expiration.thread.pool.size",
            10,
            "Threads that delete from remote storage.",
            _NO_TIERS,
        ),
        (
            "remote.log.manager.follower.thread.pool.size",
            2,
            "Threads that follow what the leader copied.",
            _NO_TIERS,
        ),
    )
)

_OF_AUTHENTICATION: Final = tuple(
    _kept(name, kind, default, meaning, why, one_broker=True)
    for name, kind, default, meaning, why in (
        ("sasl.kerberos.kinit.cmd", string(), "/usr/bin/kinit", "The path of kinit.", _NO_KERBEROS),
        (
            "sasl.kerberos.min.time.before.relogin",
            long(),
            60_000,
            "The sleep between attempts to refresh a ticket, in milliseconds.",
            _NO_KERBEROS,
        ),
        (
            "sasl.kerberos.ticket.renew.window.factor",
            double(),
            0.8,
            "The share of a ticket's life after which it is refreshed.",
            _NO_KERBEROS,
        ),
        (
            "sasl.kerberos.ticket.renew.jitter",
            double(),
            0.05,
            "The random part of the time of a refresh.",
            _NO_KERBEROS,
        ),
        (
            "sasl.login.refresh.window.factor",
            double(),
            0.8,
            "The share of a credential's life after which it is refreshed.",
            _NO_TOKENS,
        ),
        (
            "sasl.login.refresh.window.jitter",
            double(),
            0.05,
            "The random part of the time of a refresh.",
            _NO_TOKENS,
        ),
        (
            "sasl.login.refresh.min.period.seconds",
            short(),
            60,
            "The least time between refreshes, in seconds.",
            _NO_TOKENS,
        ),
        (
            "sasl.login.refresh.buffer.seconds",
            short(),
            300,
            "The time before the end of a credential in which it is not refreshed, in seconds.",
            _NO_TOKENS,
        ),
    )
)

_OF_TIERED_STORAGE: Final = tuple(
    _kept(name, kind, default, meaning, _NO_TIERS)
    for name, kind, default, meaning in (
        (
            "remote.log.manager.fetch.max.bytes.per.second",
            long(1),
            LONG_MAX,
            "Bytes per second that are read from remote storage.",
        ),
        (
            "remote.log.manager.copy.max.bytes.per.second",
            long(1),
            LONG_MAX,
            "Bytes per second that are copied to remote storage.",
        ),
        (
            "remote.fetch.max.wait.ms",
            integer(1),
            500,
            "How long a fetch waits for remote storage, in milliseconds.",
        ),
        (
            "remote.log.index.file.cache.total.size.bytes",
            long(1),
            1024**3,
            "The size of the cache of indexes of remote segments, in bytes.",
        ),
        (
            "remote.list.offsets.request.timeout.ms",
            long(1),
            30_000,
            "How long ListOffsets waits for remote storage, in milliseconds.",
        ),
        (
            "follower.fetch.last.tiered.offset.enable",
            boolean(),
            False,
            "Whether a new replica begins at the last offset in remote storage.",
        ),
    )
)

_OF_GROUPS: Final = (
    _kept(
        "group.coordinator.cached.buffer.max.bytes",
        integer(524_288),
        1_048_588,
        "The largest buffer that the group coordinator keeps, in bytes.",
        "no buffers are kept for what coordinators write",
    ),
    _kept(
        "share.coordinator.cached.buffer.max.bytes",
        integer(524_288),
        1_048_588,
        "The largest buffer that the share coordinator keeps, in bytes.",
        _NO_SHARE_GROUPS,
    ),
    _kept(
        "group.share.assignment.interval.ms",
        integer(0),
        1_000,
        "The least time between two assignments of a share group, in milliseconds.",
        _NO_SHARE_GROUPS,
    ),
    _kept(
        "group.streams.assignment.interval.ms",
        integer(0),
        1_000,
        "The least time between two assignments of a streams group, in milliseconds.",
        "streams groups are not coordinated here",
    ),
)

_OF_SHARE_GROUPS: Final = (
    _kept(
        "errors.deadletterqueue.auto.create.topics.enable",
        boolean(),
        False,
        "Whether dead-letter queues of share groups are created automatically.",
        _NO_SHARE_GROUPS,
    ),
    _kept(
        "errors.deadletterqueue.topic.name.prefix",
        string(),
        "dlq.",
        "What the names of dead-letter queues of share groups begin with.",
        _NO_SHARE_GROUPS,
    ),
)

_OF_TOPICS: Final = (
    _kept_for_topics(
        "unclean.leader.election.enable",
        boolean(),
        False,
        "Whether a replica that is not in sync may become leader.",
        _UNCLEAN_LEADER_ELECTION,
    ),
    _kept_for_topics(
        "leader.replication.throttled.replicas",
        _throttled_replicas(),
        (),
        "Replicas whose replication is throttled at the leader.",
    ),
    _kept_for_topics(
        "follower.replication.throttled.replicas",
        _throttled_replicas(),
        (),
        "Replicas whose replication is throttled at the follower.",
    ),
    _kept_for_topics(
        "min.insync.replicas",
        integer(1),
        1,
        "How many replicas must be in sync for a write with acks=all; at most the replicas there are.",
        _MIN_INSYNC_REPLICAS,
    ),
    _kept_for_topics(
        "errors.deadletterqueue.group.enable",
        boolean(),
        False,
        "Whether the topic may be a dead-letter queue of share groups.",
        why=_NO_SHARE_GROUPS,
    ),
    _kept_for_topics(
        "remote.copy.lag.ms",
        long(-1),
        0,
        "How old a segment is copied to remote storage, in milliseconds.",
        _COPY_LAG_MS,
        why=_NO_TIERS,
    ),
    _kept_for_topics(
        "remote.copy.lag.bytes",
        long(-1),
        -1,
        "How many bytes of a log are not copied to remote storage.",
        _COPY_LAG_BYTES,
        why=_NO_TIERS,
    ),
    ConfigKey(
        name="remote.storage.enable",
        type=attrs.evolve(boolean(), allowed="false", parse=_only_false),
        default=False,
        scope="topic",
        documentation="Whether segments of the topic are copied to remote storage. Only false: this broker "
        f"has no part for {_TIERS}.",
        inert=f"this broker has no part for {_TIERS}",
    ),
    _kept_for_topics(
        "remote.log.copy.disable",
        boolean(),
        False,
        "Whether segments are no longer copied to remote storage.",
        why=_NO_TIERS,
    ),
    _kept_for_topics(
        "remote.log.delete.on.disable",
        boolean(),
        False,
        "Whether remote segments are deleted when remote storage is disabled for the topic.",
        why=_NO_TIERS,
    ),
    _kept_for_topics(
        "local.retention.ms",
        long(-2),
        -2,
        "How long segments that are in remote storage are kept locally, in milliseconds; -2: as long as the "
        "log.",
        _LOCAL_RETENTION_MS,
        why=_NO_TIERS,
    ),
    _kept_for_topics(
        "local.retention.bytes",
        long(-2),
        -2,
        "How many bytes of segments that are in remote storage are kept locally; -2: as many as of the log.",
        _LOCAL_RETENTION_BYTES,
        why=_NO_TIERS,
    ),
)

KEPT_KEYS: Final[tuple[ConfigKey[object], ...]] = (
    _UNCLEAN_LEADER_ELECTION,
    _MIN_INSYNC_REPLICAS,
    _COPY_LAG_MS,
    _COPY_LAG_BYTES,
    _LOCAL_RETENTION_MS,
    _LOCAL_RETENTION_BYTES,
    *_OF_REPLICATION,
    *_OF_THREADS,
    *_OF_AUTHENTICATION,
    *_OF_TIERED_STORAGE,
    *_OF_GROUPS,
    *_OF_SHARE_GROUPS,
    *_OF_TOPICS,
)
"""All of the above, for the hook `tidelog_config_keys`."""
