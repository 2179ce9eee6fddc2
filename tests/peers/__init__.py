"""What tests and benchmarks measure tidelog against, and tidelog itself, as processes on loopback.

Development only, never part of the wheel. Everything fetched lives in one cache folder outside the checkout
(`PEERS_CACHE` moves it). What cannot be had raises PeerUnavailableError, whose text is the reason.
"""

from .cache import CACHE_VARIABLE, exclusive, peers_cache
from .java import QUICK_JVM_OPTIONS, find_java
from .java_classes import compiled
from .kafka import NEWEST_KAFKA, OLD_PROTOCOLS_KAFKA, KafkaDistribution, find_kafka, run_kafka_tool
from .kafka_format import find_kafka_format
from .kafka_messages import ask_kafka_messages
from .kafka_server import SHIPPED_JVM_OPTIONS, KafkaServer, running_kafka
from .maven import resolve_jars
from .ports import LOOPBACK, free_port, free_ports
from .process import ServerFailedError, ServerProcess
from .readiness import answers_api_versions, answers_metadata, wait_until_answers
from .tidelog_server import TidelogServer, running_tidelog
from .unavailable import PeerUnavailableError
from .zookeeper_kafka import run_zookeeper_age_tool, running_zookeeper_kafka, zookeeper_age_command
from .zookeeper_server import LONG_SESSIONS, TICK_MS, ZooKeeperServer, running_zookeeper

__all__ = [
    "CACHE_VARIABLE",
    "LONG_SESSIONS",
    "LOOPBACK",
    "NEWEST_KAFKA",
    "OLD_PROTOCOLS_KAFKA",
    "QUICK_JVM_OPTIONS",
    "SHIPPED_JVM_OPTIONS",
    "TICK_MS",
    "KafkaDistribution",
    "KafkaServer",
    "PeerUnavailableError",
    "ServerFailedError",
    "ServerProcess",
    "TidelogServer",
    "ZooKeeperServer",
    "answers_api_versions",
    "answers_metadata",
    "ask_kafka_messages",
    "compiled",
    "exclusive",
    "find_java",
    "find_kafka",
    "find_kafka_format",
    "free_port",
    "free_ports",
    "peers_cache",
    "resolve_jars",
    "run_kafka_tool",
    "run_zookeeper_age_tool",
    "running_kafka",
    "running_tidelog",
    "running_zookeeper",
    "running_zookeeper_kafka",
    "wait_until_answers",
    "zookeeper_age_command",
]
