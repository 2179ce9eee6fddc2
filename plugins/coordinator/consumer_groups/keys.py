"""Configuration keys of groups of the consumer protocol, with Kafka's names, defaults and ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.config import BrokerDefault, ConfigKey, boolean, choice, comma_list, integer
from tidelog.kernel.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor

INT_MAX = 2**31 - 1

MIN_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.consumer.min.session.timeout.ms",
    type=integer(1),
    default=45_000,
    documentation="The least value of `group.consumer.session.timeout.ms`.",
)
MAX_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.consumer.max.session.timeout.ms",
    type=integer(1),
    default=60_000,
    documentation="The largest value of `group.consumer.session.timeout.ms`.",
)
SESSION_TIMEOUT_MS = ConfigKey(
    name="group.consumer.session.timeout.ms",
    type=integer(1),
    default=45_000,
    within=(MIN_SESSION_TIMEOUT_MS, MAX_SESSION_TIMEOUT_MS),
    documentation="How long a member of the consumer protocol may send no heartbeat before the group removes "
    "it, in milliseconds.",
)
MIN_HEARTBEAT_INTERVAL_MS = ConfigKey(
    name="group.consumer.min.heartbeat.interval.ms",
    type=integer(1),
    default=5_000,
    documentation="The least value of `group.consumer.heartbeat.interval.ms`.",
)
MAX_HEARTBEAT_INTERVAL_MS = ConfigKey(
    name="group.consumer.max.heartbeat.interval.ms",
    type=integer(1),
    default=15_000,
    documentation="The largest value of `group.consumer.heartbeat.interval.ms`.",
)
HEARTBEAT_INTERVAL_MS = ConfigKey(
    name="group.consumer.heartbeat.interval.ms",
    type=integer(1),
    default=5_000,
    within=(MIN_HEARTBEAT_INTERVAL_MS, MAX_HEARTBEAT_INTERVAL_MS),
    below=SESSION_TIMEOUT_MS.name,
    documentation="The interval at which members of the consumer protocol send heartbeats, in milliseconds.",
)
MAX_SIZE = ConfigKey(
    name="group.consumer.max.size",
    type=integer(1),
    default=INT_MAX,
    documentation="How many members a group of the consumer protocol may have.",
)
ASSIGNORS = ConfigKey(
    name="group.consumer.assignors",
    type=comma_list(non_empty=True),
    default=("uniform", "range"),
    documentation="The server-side assignors that consumers may choose from with `group.remote.assignor`; "
    "the first is for those that do not choose. Names of assignors that plugins offer.",
)
MIGRATION_POLICY = ConfigKey(
    name="group.consumer.migration.policy",
    type=choice("bidirectional", "upgrade", "downgrade", "disabled"),
    default="bidirectional",
    documentation="Whether a group of consumers with members may change its protocol: `upgrade` from classic "
    "to consumer when a member of the consumer protocol joins, `downgrade` back when the last one leaves.",
)
MIN_ASSIGNMENT_INTERVAL_MS = ConfigKey(
    name="group.consumer.min.assignment.interval.ms",
    type=integer(0),
    default=0,
    documentation="The least value of `group.consumer.assignment.interval.ms`.",
)
MAX_ASSIGNMENT_INTERVAL_MS = ConfigKey(
    name="group.consumer.max.assignment.interval.ms",
    type=integer(0),
    default=15_000,
    documentation="The largest value of `group.consumer.assignment.interval.ms`.",
)
ASSIGNMENT_INTERVAL_MS = ConfigKey(
    name="group.consumer.assignment.interval.ms",
    type=integer(0),
    default=1_000,
    within=(MIN_ASSIGNMENT_INTERVAL_MS, MAX_ASSIGNMENT_INTERVAL_MS),
    dynamic=True,
    documentation="The least time between two assignments of a group of the consumer protocol, in "
    "milliseconds; changes within it lead to one assignment.",
)
ASSIGNOR_OFFLOAD = ConfigKey(
    name="group.consumer.assignor.offload.enable",
    type=boolean(),
    default=True,
    documentation="Whether a heartbeat of a large group is answered before the assignment that it leads to "
    "is computed; otherwise it waits for that. Other requests are served meanwhile in either case.",
)
REGEX_REFRESH_INTERVAL_MS = ConfigKey(
    name="group.consumer.regex.refresh.interval.ms",
    type=integer(10_000),
    default=600_000,
    documentation="The interval at which the regular expressions of subscriptions are evaluated again, in "
    "milliseconds; the creation of topics leads to that as well.",
)

GROUP_SESSION_TIMEOUT_MS = ConfigKey(
    name="consumer.session.timeout.ms",
    type=integer(1),
    default=SESSION_TIMEOUT_MS.default,
    scope="group",
    broker_defaults=(BrokerDefault(SESSION_TIMEOUT_MS),),
    within=(MIN_SESSION_TIMEOUT_MS, MAX_SESSION_TIMEOUT_MS),
    documentation="How long a member of this group may send no heartbeat before the group removes it, in "
    "milliseconds. It counts from the next heartbeat of each member.",
)
GROUP_HEARTBEAT_INTERVAL_MS = ConfigKey(
    name="consumer.heartbeat.interval.ms",
    type=integer(1),
    default=HEARTBEAT_INTERVAL_MS.default,
    scope="group",
    broker_defaults=(BrokerDefault(HEARTBEAT_INTERVAL_MS),),
    within=(MIN_HEARTBEAT_INTERVAL_MS, MAX_HEARTBEAT_INTERVAL_MS),
    below=GROUP_SESSION_TIMEOUT_MS.name,
    documentation="The interval at which members of this group send heartbeats, in milliseconds.",
)
GROUP_ASSIGNMENT_INTERVAL_MS = ConfigKey(
    name="consumer.assignment.interval.ms",
    type=integer(0),
    default=ASSIGNMENT_INTERVAL_MS.default,
    scope="group",
    broker_defaults=(BrokerDefault(ASSIGNMENT_INTERVAL_MS),),
    within=(MIN_ASSIGNMENT_INTERVAL_MS, MAX_ASSIGNMENT_INTERVAL_MS),
    documentation="The least time between two assignments of this group, in milliseconds.",
)
GROUP_ASSIGNOR_OFFLOAD = ConfigKey(
    name="consumer.assignor.offload.enable",
    type=boolean(),
    default=ASSIGNOR_OFFLOAD.default,
    scope="group",
    broker_defaults=(BrokerDefault(ASSIGNOR_OFFLOAD),),
    documentation="Whether a heartbeat of this group, if it is large, is answered before the assignment that "
    "it leads to is computed.",
)


def check(config: Config, offered: Mapping[str, PartitionAssignor]) -> None:
    """Check the names of assignors, on a broker whose plugins offer these.

    Raises:
        ConfigError: one is named that no plugin offers.
    """
    names = config[ASSIGNORS]
    if any(name not in offered for name in names):
        raise ConfigError(
            f"{ASSIGNORS.name} = {','.join(names)}: there are the assignors {', '.join(sorted(offered))}"
        )
