"""Every configuration key that the kernel reads, by constant: `config[keys.NUM_PARTITIONS]`.

A key is declared here and named nowhere else but where it is read. Plugins declare theirs in modules of their
own, seams those that several plugins share; all are returned by `tidelog_config_keys`.
"""

from __future__ import annotations

import sys
from typing import Final

from tidelog.kernel.config.key import BrokerDefault, ConfigKey, check_above_0, declared_keys
from tidelog.kernel.config.listeners import Listener, advertised_listeners, listener_names, listeners
from tidelog.kernel.config.types import (
    INT_MAX,
    LONG_MAX,
    authorizer_name,
    choice,
    class_name,
    comma_list,
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

MAX_QUOTA_SAMPLES: Final = 3600
"""Each client that has a quota has so many samples in memory."""

# The broker as a whole: identity, topics, producers, plugins, logs, stopping.

NODE_ID = ConfigKey(
    name="node.id",
    type=integer(0),
    default=1,
    aliases=("broker.id",),
    documentation="The id of this broker, which clients see as the leader of every partition.",
)
BROKER_RACK = ConfigKey(
    name="broker.rack",
    type=nullable(string()),
    default=None,
    documentation="The rack of this broker, which Metadata reports to clients.",
)
NUM_PARTITIONS = ConfigKey(
    name="num.partitions",
    type=integer(1),
    default=1,
    documentation="The number of partitions of a topic that is created without one.",
)
PRODUCER_ID_EXPIRATION_MS = ConfigKey(
    name="producer.id.expiration.ms",
    type=integer(1),
    default=86400000,
    dynamic=True,
    documentation="How long the state of an idempotent producer that writes nothing is kept, in "
    "milliseconds.",
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = ConfigKey(
    name="producer.id.expiration.check.interval.ms",
    type=integer(1),
    default=600000,
    documentation="The interval of the check for expired producers, in milliseconds.",
)
STORAGE = ConfigKey(
    name="storage",
    type=string(non_empty=True),
    default="file",
    chooses="storage",
    documentation="Where the data of partitions is stored: the name of a storage that an installed plugin "
    "offers. `tidelog plugins` lists them.",
)
METADATA = ConfigKey(
    name="metadata",
    type=nullable(string(non_empty=True)),
    default=None,
    chooses="metadata store",
    documentation="Where topics, their configuration and producer ids are kept: the name of a metadata store "
    "that an installed plugin offers. When it is not set, `kraft` with a storage that keeps its data, and "
    "`memory` with others.",
)
CONTROLLER = ConfigKey(
    name="controller",
    type=string(non_empty=True),
    default="local",
    chooses="controller",
    documentation="What decides changes of topics, configuration and all else in the metadata: the name of a "
    "controller that an installed plugin offers.",
)
COORDINATOR = ConfigKey(
    name="coordinator",
    type=string(non_empty=True),
    default="classic",
    chooses="coordinator",
    documentation="What coordinates groups and transactions: the name of a coordinator that an installed "
    "plugin offers. `tidelog plugins` lists them.",
)
AUTHORIZER_CLASS_NAME = ConfigKey(
    name="authorizer.class.name",
    type=authorizer_name(),
    default="",
    chooses="authorizer",
    documentation="What decides who may do what: the name of an authorizer that an installed plugin offers, "
    "such as `standard`, which goes by access control entries like Apache Kafka's `StandardAuthorizer` and "
    "is chosen by that class's name, too. Empty: everyone may do everything.",
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
    documentation="Form of the broker's log. `human`: a line of text per event; `json`: "
    "an object per line; `auto`: human, with colours when it goes to a terminal.",
)
LOG_LEVEL = ConfigKey(
    name="log.level",
    type=choice("debug", "info", "warning", "error"),
    default="info",
    documentation="The lowest level of the events that are logged.",
)
LOG_FILE = ConfigKey(
    name="log.file",
    type=nullable(string(non_empty=True)),
    default=None,
    documentation="The file to which the broker appends its log instead of standard error. When it is moved "
    "or deleted, as by logrotate, the next event is in a new one.",
)
SHUTDOWN_TIMEOUT_MS = ConfigKey(
    name="shutdown.timeout.ms",
    type=long(0),
    default=10000,
    documentation="How long a graceful stop waits for requests in progress before it ends them, in "
    "milliseconds.",
)

# Listeners and connections.

LISTENERS = ConfigKey(
    name="listeners",
    type=listeners(),
    default=(Listener("PLAINTEXT", "", 9092),),
    documentation="Where the broker listens. An empty host means every interface; port 0 lets the system "
    "choose a free port, which the ready file and the output of `tidelog serve` contain.",
)
ADVERTISED_LISTENERS = ConfigKey(
    name="advertised.listeners",
    type=optional(advertised_listeners()),
    default=None,
    documentation="The addresses that the broker reports to clients, by listener name; port 0 stands for "
    "the port that is bound. Unset: the address of the listener itself.",
)
CONTROLLER_LISTENER_NAMES = ConfigKey(
    name="controller.listener.names",
    type=listener_names(),
    default=(),
    documentation="Listeners that Kafka reserves for its controllers. This broker needs none: a listener "
    "of such a name is not opened.",
)
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's; `listener.security.protocol.map` takes those that plugins offer beside them."""
LISTENER_SECURITY_PROTOCOL_MAP = ConfigKey(
    name="listener.security.protocol.map",
    type=names_by_listener(
        "NAME:PROTOCOL pairs between commas; the protocols are those of plugins and Kafka's",
        *SECURITY_PROTOCOLS,
    ),
    default={},
    documentation="Security protocols of the listeners: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, or one "
    "that a plugin offers. A name that is missing here and is no protocol's name itself is PLAINTEXT.",
)
SASL_ENABLED_MECHANISMS = ConfigKey(
    name="sasl.enabled.mechanisms",
    type=comma_list(),
    default=("GSSAPI",),
    per_listener="static",
    documentation="The SASL mechanisms that clients of listeners with `SASL_PLAINTEXT` or `SASL_SSL` may "
    "choose, by the names that plugins offer them under.",
)
CONNECTIONS_MAX_REAUTH_MS = ConfigKey(
    name="connections.max.reauth.ms",
    type=long(),
    default=0,
    per_listener="static",
    per_mechanism=True,
    documentation="How long a connection may be used after it was authenticated with SASL, in "
    "milliseconds; clients authenticate again before, and connections of those that do not are closed "
    "(KIP-368). 0: without an end.",
)
CONNECTION_FAILED_AUTHENTICATION_DELAY_MS = ConfigKey(
    name="connection.failed.authentication.delay.ms",
    type=integer(0, 60_000),
    default=100,
    documentation="How long the answer to a failed authentication waits, in milliseconds; then the "
    "connection is closed.",
)
SASL_SERVER_MAX_RECEIVE_SIZE = ConfigKey(
    name="sasl.server.max.receive.size",
    type=integer(1),
    default=524288,
    documentation="The largest request before a connection is authenticated, in bytes.",
)
DELEGATION_TOKEN_SECRET_KEY = ConfigKey(
    name="delegation.token.secret.key",
    type=nullable(password()),
    default=None,
    documentation="The secret that delegation tokens are made of; without it there are none. Another one "
    "makes all tokens worthless.",
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = ConfigKey(
    name="delegation.token.max.lifetime.ms",
    type=long(1),
    default=604_800_000,
    documentation="How long a delegation token can be renewed, in milliseconds.",
)
DELEGATION_TOKEN_EXPIRY_TIME_MS = ConfigKey(
    name="delegation.token.expiry.time.ms",
    type=long(1),
    default=86_400_000,
    documentation="How long a delegation token is valid before it has to be renewed, in milliseconds.",
)
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = ConfigKey(
    name="delegation.token.expiry.check.interval.ms",
    type=long(1),
    default=3_600_000,
    documentation="The interval of the check for delegation tokens that have expired, in milliseconds. They "
    "let no one in before they are removed.",
)
LISTENER_CODEC_MAP = ConfigKey(
    name="listener.codec.map",
    type=names_by_listener("NAME:codec pairs between commas"),
    default={},
    documentation="Wire protocols of the listeners, by the names that plugins offer them under; `kafka` "
    "for a listener that is missing here.",
)
SOCKET_SEND_BUFFER_BYTES = ConfigKey(
    name="socket.send.buffer.bytes",
    type=integer(-1),
    default=262144,
    documentation="The system's send buffer per connection (SO_SNDBUF), in bytes; -1 leaves it to the "
    "system, which adapts it to some megabytes: then what a consumer receives is no longer in the "
    "processor's cache. Apache Kafka ships 102400: then a response is sent in more pieces.",
)
SOCKET_RECEIVE_BUFFER_BYTES = ConfigKey(
    name="socket.receive.buffer.bytes",
    type=integer(-1),
    default=-1,
    documentation="The system's receive buffer per connection (SO_RCVBUF), in bytes; -1 leaves it to the "
    "system, which adapts it. Apache Kafka ships 102400: then a client of large batches waits while one of "
    "them is checked, as little more than the next 100 KB can be on their way.",
)
SOCKET_LISTEN_BACKLOG_SIZE = ConfigKey(
    name="socket.listen.backlog.size",
    type=integer(1),
    default=50,
    documentation="The length of the queue of connections that wait to be accepted; the limit of the system "
    "may be lower.",
)
MAX_CONNECTIONS = ConfigKey(
    name="max.connections",
    type=integer(0),
    default=INT_MAX,
    dynamic=True,
    check_change=check_above_0,
    documentation="The largest number of open connections; further ones wait until one ends. For one "
    "listener: `listener.name.NAME.max.connections`, with its name in lower case.",
)
MAX_CONNECTIONS_PER_IP = ConfigKey(
    name="max.connections.per.ip",
    type=integer(0),
    default=INT_MAX,
    dynamic=True,
    documentation="The largest number of open connections of one address; further ones are closed.",
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = ConfigKey(
    name="max.connections.per.ip.overrides",
    type=limits_by_host(),
    default={},
    documentation="Limits for single addresses or host names that replace `max.connections.per.ip`.",
)
MAX_CONNECTION_CREATION_RATE = ConfigKey(
    name="max.connection.creation.rate",
    type=integer(0),
    default=INT_MAX,
    dynamic=True,
    check_change=check_above_0,
    documentation="The largest number of connections created per second; above it a listener pauses for up "
    "to a second before it serves the next one. For one listener: "
    "`listener.name.NAME.max.connection.creation.rate`. The quota `connection_creation_rate` is for one "
    "address.",
)
QUOTA_WINDOW_NUM = ConfigKey(
    name="quota.window.num",
    type=integer(1, MAX_QUOTA_SAMPLES),
    default=11,
    documentation="How many samples the rates of client quotas and of new connections are measured over.",
)
QUOTA_WINDOW_SIZE_SECONDS = ConfigKey(
    name="quota.window.size.seconds",
    type=integer(1),
    default=1,
    documentation="How many seconds each sample of the rates of client quotas and of new connections lasts.",
)
CONTROLLER_QUOTA_WINDOW_NUM = ConfigKey(
    name="controller.quota.window.num",
    type=integer(1, MAX_QUOTA_SAMPLES),
    default=11,
    documentation="For how many samples the quota `controller_mutation_rate` can be saved up.",
)
CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS = ConfigKey(
    name="controller.quota.window.size.seconds",
    type=integer(1),
    default=1,
    documentation="How many seconds each sample of the quota `controller_mutation_rate` lasts.",
)
CLIENT_QUOTA_CALLBACK_CLASS = ConfigKey(
    name="client.quota.callback.class",
    type=class_name(),
    default="standard",
    chooses="quota callback",
    documentation="What decides which quota a request counts against: the name of a quota callback that an "
    "installed plugin offers. `standard` goes by the quotas that are set for users and client ids. Empty: "
    "no client is throttled.",
)
CONNECTIONS_MAX_IDLE_MS = ConfigKey(
    name="connections.max.idle.ms",
    type=or_unlimited(long(0)),
    default=600000,
    documentation="A connection without traffic is closed after this many milliseconds, also while a request "
    "of it waits; -1: never. No fetch waits longer for records than that.",
)
QUEUED_MAX_REQUEST_BYTES = ConfigKey(
    name="queued.max.request.bytes",
    type=long(),
    default=-1,
    documentation="How many bytes of memory requests may have together until they are answered, beside some "
    "KiB for each connection. When they are used up, connections that need more are not read from until "
    "others give some back; if that takes longer than 10 s, the connections whose requests have been "
    "unfinished for longest are closed. 0 or less: a quarter of the memory of the machine or container.",
)
SOCKET_BUSY_POLL_US = ConfigKey(
    name="socket.busy.poll.us",
    type=integer(0, 10_000),
    default=400,
    documentation="How many microseconds the broker busy-polls for the next request of a client in a closed "
    "loop of small requests (up to 32 KB and 64 records, each sent as soon as the last is answered), instead "
    "of sleeping until it arrives: for one such client at a time, and only while no task of the machine "
    "waits for a processor. 0: never.",
)
EVENT_LOOP_STALL_MS = ConfigKey(
    name="event.loop.stall.ms",
    type=long(0),
    default=500,
    documentation="How long one request or task may hold the event loop, in milliseconds, until that is "
    "logged and counted: no other client is served meanwhile. 0: no matter how long.",
)
DECOMPRESSION_MEMORY_BYTES = ConfigKey(
    name="decompression.memory.bytes",
    type=long(1024 * 1024),
    default=128 * 1024 * 1024,
    documentation="How many bytes of memory may be used at the same time to decompress records: to validate "
    "batches of producers, to find offsets by timestamp, and to convert batches for old consumers. What does "
    "not fit waits; a batch that takes more than that is decompressed alone. Half as many more keep batches "
    "open while they are sent to old consumers; what does not fit is decompressed again for each 256 KiB.",
)

# Topics: each broker key is followed by the topic key whose default it gives.

MESSAGE_MAX_BYTES = ConfigKey(
    name="message.max.bytes",
    type=integer(0),
    default=1048588,
    dynamic=True,
    documentation="The largest record batch that is accepted, in bytes, after compression and with its "
    "header.",
)
MAX_MESSAGE_BYTES = ConfigKey(
    name="max.message.bytes",
    type=integer(0),
    default=1048588,
    scope="topic",
    broker_defaults=(BrokerDefault(MESSAGE_MAX_BYTES),),
    documentation="The largest record batch that is accepted, in bytes, after compression and with its "
    "header.",
)
_DECOMPRESSED_BYTES_MAX = 2**31 - 9
"""The largest array of Java, and so the largest record that Kafka can decompress."""
_DECOMPRESSED_BYTES_DOC = (
    "The largest record in a compressed batch of a producer, in bytes, after decompression. A batch with a "
    "larger one is refused."
)
MAX_DECOMPRESSED_MESSAGE_BYTES_OF_BROKER = ConfigKey(
    name="max.decompressed.message.bytes",
    type=integer(1, _DECOMPRESSED_BYTES_MAX),
    default=_DECOMPRESSED_BYTES_MAX,
    dynamic=True,
    documentation=_DECOMPRESSED_BYTES_DOC,
)
MAX_DECOMPRESSED_MESSAGE_BYTES = ConfigKey(
    name="max.decompressed.message.bytes",
    type=integer(1, _DECOMPRESSED_BYTES_MAX),
    default=_DECOMPRESSED_BYTES_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(MAX_DECOMPRESSED_MESSAGE_BYTES_OF_BROKER),),
    documentation=_DECOMPRESSED_BYTES_DOC,
)
LOG_FLUSH_INTERVAL_MESSAGES = ConfigKey(
    name="log.flush.interval.messages",
    type=long(1),
    default=LONG_MAX,
    dynamic=True,
    documentation="The number of records after which a log is flushed to disk; the record that completes "
    "this number is acknowledged, and visible to consumers, only then. 1: every batch is durable before it "
    "is acknowledged.",
)
FLUSH_MESSAGES = ConfigKey(
    name="flush.messages",
    type=long(1),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_FLUSH_INTERVAL_MESSAGES),),
    documentation="The number of records after which the log is flushed to disk; the record that completes "
    "this number is acknowledged, and visible to consumers, only then. 1: every batch is durable before it "
    "is acknowledged.",
)
LOG_FLUSH_INTERVAL_MS = ConfigKey(
    name="log.flush.interval.ms",
    type=optional(long(0)),
    default=None,
    dynamic=True,
    documentation="Time after which what was appended is flushed to disk, in milliseconds. Unset: "
    "`log.flush.scheduler.interval.ms`.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = ConfigKey(
    name="log.flush.scheduler.interval.ms",
    type=long(1),
    default=LONG_MAX,
    documentation="The interval of the check for logs that have to be flushed by time, in milliseconds. With "
    "the default: once a second.",
)
FLUSH_MS = ConfigKey(
    name="flush.ms",
    type=long(0),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(
        BrokerDefault(LOG_FLUSH_INTERVAL_MS),
        BrokerDefault(LOG_FLUSH_SCHEDULER_INTERVAL_MS),
    ),
    documentation="Time after which what was appended is flushed to disk, in milliseconds; no response waits "
    "for it.",
)
LOG_INITIAL_TASK_DELAY_MS = ConfigKey(
    name="log.initial.task.delay.ms",
    type=long(0),
    default=30000,
    documentation="How long flushing by time, checkpoints and the removal of deleted partitions wait after "
    "the start, in milliseconds.",
)
LOG_MESSAGE_TIMESTAMP_TYPE = ConfigKey(
    name="log.message.timestamp.type",
    type=choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    dynamic=True,
    documentation="Whether records keep the producer's timestamp or get the time at which they were "
    "appended.",
)
MESSAGE_TIMESTAMP_TYPE = ConfigKey(
    name="message.timestamp.type",
    type=choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_MESSAGE_TIMESTAMP_TYPE),),
    documentation="Whether records keep the producer's timestamp or get the time at which they were "
    "appended.",
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = ConfigKey(
    name="log.message.timestamp.before.max.ms",
    type=long(0),
    default=LONG_MAX,
    dynamic=True,
    documentation="How far a producer's timestamp may be in the past, in milliseconds. No effect with "
    "LogAppendTime.",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = ConfigKey(
    name="message.timestamp.before.max.ms",
    type=long(0),
    default=LONG_MAX,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS),),
    documentation="How far a producer's timestamp may be in the past, in milliseconds. No effect with "
    "LogAppendTime.",
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = ConfigKey(
    name="log.message.timestamp.after.max.ms",
    type=long(0),
    default=3600000,
    dynamic=True,
    documentation="How far a producer's timestamp may be in the future, in milliseconds. No effect with "
    "LogAppendTime.",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = ConfigKey(
    name="message.timestamp.after.max.ms",
    type=long(0),
    default=3600000,
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS),),
    documentation="How far a producer's timestamp may be in the future, in milliseconds. No effect with "
    "LogAppendTime.",
)
KAFKA_CLEANUP_POLICIES = ("compact", "delete")
"""The names that any directory of Apache Kafka may have; plugins add theirs."""
LOG_CLEANUP_POLICY = ConfigKey(
    name="log.cleanup.policy",
    type=comma_list(*KAFKA_CLEANUP_POLICIES, repeated="dropped"),
    default=("delete",),
    dynamic=True,
    documentation="How old records are removed: the name of a cleanup policy, or several. `delete` removes "
    "by age and size, `compact` all but the last record of each key.",
)
CLEANUP_POLICY = ConfigKey(
    name="cleanup.policy",
    type=comma_list(*KAFKA_CLEANUP_POLICIES, repeated="dropped"),
    default=("delete",),
    scope="topic",
    broker_defaults=(BrokerDefault(LOG_CLEANUP_POLICY),),
    documentation="How old records are removed: the name of a cleanup policy, or several. `delete` removes "
    "by age and size, `compact` all but the last record of each key. With `compact`, records without a key "
    "are refused.",
)

COMPRESSION_OF_PRODUCER, UNCOMPRESSED = "producer", "uncompressed"
KAFKA_COMPRESSION_TYPES = (UNCOMPRESSED, "zstd", "lz4", "snappy", "gzip", COMPRESSION_OF_PRODUCER)
"""The names that any directory of Apache Kafka may have; plugins add theirs."""
_COMPRESSION_DOC = (
    "The codec that records are stored with: `producer`, the one that the producer chose, `uncompressed`, "
    "or the name of a codec. Batches of another codec are recompressed; those of this one are stored as they "
    "are."
)
BROKER_COMPRESSION_TYPE = ConfigKey(
    name="compression.type",
    type=choice(*KAFKA_COMPRESSION_TYPES),
    default=COMPRESSION_OF_PRODUCER,
    dynamic=True,
    documentation=_COMPRESSION_DOC,
)
COMPRESSION_TYPE = ConfigKey(
    name="compression.type",
    type=choice(*KAFKA_COMPRESSION_TYPES),
    default=COMPRESSION_OF_PRODUCER,
    scope="topic",
    broker_defaults=(BrokerDefault(BROKER_COMPRESSION_TYPE),),
    documentation=_COMPRESSION_DOC,
)

KERNEL_KEYS = declared_keys(sys.modules[__name__])
"""All of the above."""
