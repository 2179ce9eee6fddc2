"""Configuration keys of the registries in ZooKeeper, and those of Kafka's that have no part here."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import (
    boolean,
    choice,
    comma_list,
    integer,
    nullable,
    optional,
    password,
    string,
)
from tidelog.kernel.config.unsupported import UnsupportedKey
from tidelog.plugins.keystores import STORE_KINDS
from tidelog.plugins.zookeeper.connect_string import connect_string

LAYOUT_08: Final = "0.8"
LAYOUT_07: Final = "0.7"

ZOOKEEPER_CONNECT = ConfigKey(
    name="zookeeper.connect",
    type=connect_string(),
    default=None,
    documentation="The ZooKeeper in which the broker registers itself and its topics, for clients and tools "
    "that find them there. Unset: in none. Needs the extra `zookeeper`.",
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = ConfigKey(
    name="zookeeper.connection.timeout.ms",
    type=optional(integer(1)),
    default=None,
    documentation="How long a start waits at most for a connection to ZooKeeper, in milliseconds; then the "
    "broker serves without, and registers later. It does not wait where all servers refuse. Unset: "
    "`zookeeper.session.timeout.ms`.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = ConfigKey(
    name="zookeeper.session.timeout.ms",
    type=integer(1),
    default=18_000,
    documentation="The time without a sign of life after which ZooKeeper removes the registration of the "
    "broker, in milliseconds; ZooKeeper has limits for it. An answer that takes longer has failed.",
)
ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = ConfigKey(
    name="zookeeper.max.in.flight.requests",
    type=integer(1),
    default=10,
    documentation="Requests that the broker sends to ZooKeeper before it waits for an answer.",
)
ZOOKEEPER_LAYOUT = ConfigKey(
    name="zookeeper.layout",
    type=choice(LAYOUT_08, LAYOUT_07),
    default=LAYOUT_08,
    documentation="The nodes that are written: `0.8`, those of Kafka 0.8 and later, or `0.7`, which its "
    "clients and tools read: `host:port` of brokers, and the number of partitions per topic and broker.",
)

_WITH_TLS: Final = ("zookeeper.ssl.client.enable", "true")

ZOOKEEPER_SSL_CLIENT_ENABLE = ConfigKey(
    name="zookeeper.ssl.client.enable",
    type=boolean(),
    default=False,
    documentation="Connect to ZooKeeper with TLS, to the `secureClientPort` of its servers.",
)
ZOOKEEPER_SSL_KEYSTORE_LOCATION = ConfigKey(
    name="zookeeper.ssl.keystore.location",
    type=nullable(string()),
    default=None,
    documentation="The file with the broker's private key and certificates for ZooKeeper, where its servers "
    "ask for them. Unset: none.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_KEYSTORE_PASSWORD = ConfigKey(
    name="zookeeper.ssl.keystore.password",
    type=optional(password()),
    default=None,
    documentation="The password of that file and of its private key, in a PEM file of the key alone.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_KEYSTORE_TYPE = ConfigKey(
    name="zookeeper.ssl.keystore.type",
    type=nullable(choice(*STORE_KINDS)),
    default=None,
    documentation="The format of that file; as in Java each of JKS and PKCS12 is both. Unset: what its "
    "content is.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = ConfigKey(
    name="zookeeper.ssl.truststore.location",
    type=nullable(string()),
    default=None,
    documentation="The file with the authorities whose ZooKeeper servers are trusted. Unset: those of the "
    "system.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD = ConfigKey(
    name="zookeeper.ssl.truststore.password",
    type=optional(password()),
    default=None,
    documentation="The password of that file, where it has one.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_TRUSTSTORE_TYPE = ConfigKey(
    name="zookeeper.ssl.truststore.type",
    type=nullable(choice(*STORE_KINDS)),
    default=None,
    documentation="The format of that file, as `zookeeper.ssl.keystore.type` has it.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_ENABLED_PROTOCOLS = ConfigKey(
    name="zookeeper.ssl.enabled.protocols",
    type=comma_list("TLSv1.2", "TLSv1.3", repeated="dropped", non_empty=True),
    default=("TLSv1.2", "TLSv1.3"),
    documentation="The versions of TLS that a connection to ZooKeeper may use.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_CIPHER_SUITES = ConfigKey(
    name="zookeeper.ssl.cipher.suites",
    type=comma_list(repeated="dropped"),
    default=(),
    documentation="The cipher suites that it may use, by their IANA names; empty: what OpenSSL finds secure.",
    only_with=_WITH_TLS,
)
ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = ConfigKey(
    name="zookeeper.ssl.endpoint.identification.algorithm",
    type=choice("HTTPS", "https", ""),
    default="HTTPS",
    documentation="HTTPS: the certificate of a server has to name the host that is connected to; empty: it "
    "need not.",
)

ZOOKEEPER_SET_ACL = ConfigKey(
    name="zookeeper.set.acl",
    type=boolean(),
    default=False,
    documentation="Give each node that the broker creates an access control list: all may read it, and only "
    "who has the broker's certificate may change it. `/consumers` is open, for old consumers. Needs "
    "`zookeeper.ssl.client.enable` and `zookeeper.ssl.keystore.location`.",
)

_NO_REVOCATION: Final = "asking whether a certificate of ZooKeeper's was revoked"
UNSUPPORTED: Final = (
    UnsupportedKey("zookeeper.ssl.crl.enable", "broker", missing=_NO_REVOCATION, neutral=("false",)),
    UnsupportedKey("zookeeper.ssl.ocsp.enable", "broker", missing=_NO_REVOCATION, neutral=("false",)),
    UnsupportedKey(
        "zookeeper.ssl.protocol",
        "broker",
        meaningless="zookeeper.ssl.enabled.protocols has the versions of TLS",
    ),
    UnsupportedKey(
        "zookeeper.clientCnxnSocket", "broker", meaningless="it names a Java class of ZooKeeper's client"
    ),
    UnsupportedKey(
        "zookeeper.metadata.migration.enable",
        "broker",
        missing="the migration of metadata from ZooKeeper",
        neutral=("false",),
    ),
    UnsupportedKey(
        "zookeeper.metadata.migration.min.batch.size",
        "broker",
        meaningless="no metadata is migrated from ZooKeeper",
    ),
    UnsupportedKey("zookeeper.sync.time.ms", "broker", meaningless="Apache Kafka has removed it"),
)
