"""Keys of the broker as a whole: identity, topics, producers, plugins, logs, stopping."""

from __future__ import annotations

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import boolean, choice, comma_list, integer, long, nullable, string

NODE_ID = ConfigKey(
    name="node.id",
    type=integer(0),
    default=1,
    aliases=("broker.id",),
    documentation="The number of this broker, which clients see as the leader of every partition.",
)
BROKER_RACK = ConfigKey(
    name="broker.rack",
    type=nullable(string()),
    default=None,
    documentation="The rack that clients are told this broker stands in.",
)
NUM_PARTITIONS = ConfigKey(
    name="num.partitions",
    type=integer(1),
    default=1,
    documentation="Partitions of a topic that is created without a number of its own.",
)
DEFAULT_REPLICATION_FACTOR = ConfigKey(
    name="default.replication.factor",
    type=integer(1, 1),
    default=1,
    documentation="Replicas of a topic that is created without a number of its own. A single broker holds "
    "one.",
)
AUTO_CREATE_TOPICS_ENABLE = ConfigKey(
    name="auto.create.topics.enable",
    type=boolean(),
    default=True,
    documentation="Whether a topic is created when a client first asks for its metadata. The client is told "
    "that it is unknown and asks again.",
)
DELETE_TOPIC_ENABLE = ConfigKey(
    name="delete.topic.enable",
    type=boolean(),
    default=True,
    documentation="Whether clients may delete topics.",
)
FETCH_MAX_BYTES = ConfigKey(
    name="fetch.max.bytes",
    type=integer(1024),
    default=57671680,
    documentation="The largest answer to one fetch, in bytes, however much the client asks for. A first "
    "batch that is larger still comes whole.",
)
PRODUCER_ID_EXPIRATION_MS = ConfigKey(
    name="producer.id.expiration.ms",
    type=integer(1),
    default=86400000,
    dynamic=True,
    documentation="How long an idempotent producer that writes nothing is remembered, in milliseconds.",
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = ConfigKey(
    name="producer.id.expiration.check.interval.ms",
    type=integer(1),
    default=600000,
    documentation="How often producers are looked at for having expired, in milliseconds.",
)
STORAGE = ConfigKey(
    name="storage",
    type=string(non_empty=True),
    default="file",
    documentation="Where partitions live: the name of a storage that an installed plugin offers. `tidelog "
    "plugins` lists them.",
)
COORDINATOR = ConfigKey(
    name="coordinator",
    type=string(non_empty=True),
    default="classic",
    documentation="Who coordinates groups and transactions: the name of a coordinator that an installed "
    "plugin offers. `tidelog plugins` lists them.",
)
PLUGINS = ConfigKey(
    name="plugins",
    type=comma_list(),
    default=(),
    documentation="Modules to load as plugins besides those that installed distributions announce.",
)
PLUGINS_BLOCKED = ConfigKey(
    name="plugins.blocked",
    type=comma_list(),
    default=(),
    documentation="Names of plugins that are not loaded although they are installed.",
)
LOG_FORMAT = ConfigKey(
    name="log.format",
    type=choice("auto", "human", "json"),
    default="auto",
    documentation="Form of the broker's log on standard error. `human`: a line of text per event; `json`: "
    "an object per line; `auto`: human, with colours when it goes to a terminal.",
)
LOG_LEVEL = ConfigKey(
    name="log.level",
    type=choice("debug", "info", "warning", "error"),
    default="info",
    documentation="The least important events that are logged.",
)
SHUTDOWN_TIMEOUT_MS = ConfigKey(
    name="shutdown.timeout.ms",
    type=long(0),
    default=10000,
    documentation="How long a graceful stop waits for requests in progress before it ends them, in "
    "milliseconds.",
)
