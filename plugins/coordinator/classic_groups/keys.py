"""Configuration keys of classic groups, with Kafka's names and defaults."""

from __future__ import annotations

from tidelog.kernel.config import ConfigKey, integer
from tidelog.kernel.config.types import INT_MAX

GROUP_MIN_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.min.session.timeout.ms",
    type=integer(1),
    default=6000,
    documentation="The shortest session timeout that a member of a classic group may have, in milliseconds.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = ConfigKey(
    name="group.max.session.timeout.ms",
    type=integer(1),
    default=1_800_000,
    documentation="The longest session timeout that a member of a classic group may have, in milliseconds. "
    "The longer it is, the later the failure of a member is detected.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = ConfigKey(
    name="group.initial.rebalance.delay.ms",
    type=integer(0),
    default=3000,
    documentation="How long a classic group waits for further members when its first one has joined, in "
    "milliseconds. Each member that joins extends the wait, up to the rebalance timeout.",
)
GROUP_MAX_SIZE = ConfigKey(
    name="group.max.size",
    type=integer(1),
    default=INT_MAX,
    documentation="How many members a classic group may have; further ones are refused.",
)
