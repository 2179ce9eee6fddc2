"""What is refused at start, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.config.bundle import BUNDLE
from tests.tables import for_each
from tidelog.kernel.config import (
    Config,
    ConfigKey,
    ConfigKeys,
    nullable,
    password,
    read_sources,
    string,
)
from tidelog.kernel.errors import ConfigError

PROBLEMS = [
    ("num.partitons=3", "num.partitons (--set) is no key; did you mean num.partitions?"),
    ("zzz=3", "zzz (--set) is no key; `tidelog config` lists all keys."),
    ("num.partitions=0", "num.partitions = '0' (--set): is out of range (>= 1)"),
    ("num.partitions=", "num.partitions = '' (--set): is not a whole number (int)"),
    ("log.retention.ms=", "log.retention.ms = '' (--set): is not a whole number (long)"),
    ("log.retention.hours=0", "log.retention.hours = '0' (--set): is out of range (>= 1)"),
    ("log.dirs=", "log.dirs = '' (--set): is empty"),
    ("controller.listener.names=", "controller.listener.names = '' (--set): is empty"),
    ("num.replica.fetchers=0", "num.replica.fetchers = '0' (--set): is out of range (>= 1)"),
    (
        "max.connections.per.ip=0",
        "max.connections.per.ip: may be 0 only if max.connections.per.ip.overrides is set.",
    ),
    (
        "group.consumer.session.timeout.ms=44000",
        "group.consumer.session.timeout.ms = 44000 is not between group.consumer.min.session.timeout.ms = "
        "45000 and group.consumer.max.session.timeout.ms = 60000.",
    ),
    ("default.replication.factor=3", "default.replication.factor = '3' (--set): is out of range (1)"),
    ("broker.id=-1", "broker.id = '-1' (--set): is out of range (>= 0)"),
    ("log.level=loud", "log.level = 'loud' (--set): is none of debug, info, warning, error"),
    ("listeners=localhost:9092", "has 'localhost:9092', which is not of the form NAME://host:port"),
    ("listener.security.protocol.map=PLAINTEXT:TLS", "the protocol TLS, which is none of PLAINTEXT, SSL"),
    (
        "advertised.listeners=OTHER://a:1",
        "advertised.listeners: OTHER://a:1 has a name that is not in listeners.",
    ),
    ("listener.codec.map=OTHER:kafka", "listener.codec.map: OTHER is not in listeners."),
    ("controller.listener.names=PLAINTEXT", "all of them are in controller.listener.names"),
    (
        "segment.bytes=2000000",
        "segment.bytes (--set) is a key of single topics; the default of all topics is set by "
        "log.segment.bytes.",
    ),
    (
        "segment.ms=1",
        "segment.ms (--set) is a key of single topics; the default of all topics is set by log.roll.ms or "
        "log.roll.hours.",
    ),
    (
        "principal.builder.class=x",
        "principal.builder.class (--set) is a Kafka key that this broker has no part for (authentication).",
    ),
    (
        "log.cleaner.thread=1",
        "log.cleaner.thread (--set) is no key; did you mean log.cleaner.threads?",
    ),
    (
        "security.providers=x",
        "is a Kafka key that this broker has no part for (TLS).",
    ),
    ("port=9092", "port (--set) is a key of older Kafkas; set listeners instead."),
    ("num.partitions", "num.partitions (--set): is not of the form key=value"),
    ("=3", "=3 (--set): is not of the form key=value"),
]


@for_each(("assignment", "sentence"), PROBLEMS)
def test_resolve_reports_a_problem_with_key_value_source_range_and_remedy(
    assignment: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config(read_sources(assignments=[assignment]), BUNDLE)
    message = str(caught.value)
    assert message.startswith("The configuration has a problem: ")
    assert sentence in message
    assert "\n" not in message


def test_config_refuses_a_value_without_a_key(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("= 4\n")
    with pytest.raises(ConfigError, match=r"server\.properties:1: there is no key before '4'"):
        Config(read_sources(file=file), BUNDLE)


def test_resolve_reports_all_problems_at_once() -> None:
    environment = {"TIDELOG_NUM_PARTITONS": "3", "TIDELOG_METRIC_REPORTERS": "x", "TIDELOG_NODE_ID": "one"}
    assignments = ["log.segment.bytes=5", "nonsense"]
    with pytest.raises(ConfigError) as caught:
        Config(read_sources(environment=environment, assignments=assignments), BUNDLE)
    assert str(caught.value).splitlines() == [
        "The configuration has 5 problems:",
        "  nonsense (--set): is not of the form key=value",
        "  log.segment.bytes = '5' (--set): is out of range (>= 1048576)",
        "  num.partitons (TIDELOG_NUM_PARTITONS) is no key; did you mean num.partitions?",
        "  metric.reporters (TIDELOG_METRIC_REPORTERS) is a Kafka key that this broker has no part for "
        "(metrics reporters).",
        "  TIDELOG_NODE_ID = 'one' (TIDELOG_NODE_ID): is not a whole number (int)",
    ]


def test_resolve_reports_contradictions_beside_other_problems_but_not_those_of_a_bad_value() -> None:
    assignments = ["max.connections.per.ip=0", "security.providers=x", "advertised.listeners=OTHER://a:1"]
    with pytest.raises(ConfigError) as caught:
        Config(read_sources(assignments=assignments), BUNDLE)
    assert str(caught.value).splitlines()[1:] == [
        "  security.providers (--set) is a Kafka key that this broker has no part for (TLS).",
        "  advertised.listeners: OTHER://a:1 has a name that is not in listeners.",
        "  max.connections.per.ip: may be 0 only if max.connections.per.ip.overrides is set.",
    ]
    for bad in ("listeners=OTHER", "listenrs=OTHER://127.0.0.1:0"):
        with pytest.raises(ConfigError) as caught:
            Config(read_sources(assignments=[bad, "advertised.listeners=OTHER://a:1"]), BUNDLE)
        assert "\n" not in str(caught.value)


def test_a_bad_value_is_refused_even_where_a_stronger_source_overrides_it() -> None:
    with pytest.raises(ConfigError, match="TIDELOG_NODE_ID = 'one'"):
        Config(read_sources(environment={"TIDELOG_NODE_ID": "one"}, assignments=["node.id=1"]), BUNDLE)


def test_a_bad_secret_is_not_shown() -> None:
    secret = ConfigKey(
        name="token", type=nullable(password()), default=None, documentation="", aliases=("key",)
    )
    with pytest.raises(ConfigError) as caught:
        Config(
            read_sources(environment={"TIDELOG_KEY": "hunter1", "TIDELOG_TOKEN": "hunter2"}),
            ConfigKeys([secret]),
        )
    assert "hunter" not in str(caught.value)
    assert "[hidden] (TIDELOG_TOKEN): is set twice" in str(caught.value)


def test_a_secret_is_no_argument_of_a_process() -> None:
    secret = ConfigKey(name="token", type=nullable(password()), default=None, documentation="")
    with pytest.raises(
        ConfigError, match="the arguments of a process: set it in a file or the environ"
    ) as caught:
        Config(read_sources(assignments=["token=hunter1"]), ConfigKeys([secret]))
    assert "token = [hidden] (--set) is a secret" in str(caught.value)


NEUTRAL = [
    "remote.log.storage.system.enable=false",
]


@pytest.mark.parametrize("assignment", NEUTRAL)
def test_resolve_accepts_a_neutral_value_of_an_unsupported_kafka_key_and_warns(assignment: str) -> None:
    config = Config(read_sources(assignments=[assignment]), BUNDLE)
    (warning,) = config.warnings
    assert warning.startswith(
        f"{assignment.partition('=')[0]} (--set) changes nothing: this broker has no part for"
    )


@pytest.mark.parametrize(
    ("variable", "value", "warning"),
    [
        (
            "TIDELOG_NUM_IO_THREADS",
            "8",
            "num.io.threads (TIDELOG_NUM_IO_THREADS) has no meaning here: one event loop serves every "
            "connection, so there are no pools of threads.",
        ),
        (
            "TIDELOG_MIN_INSYNC_REPLICAS",
            "2",
            "min.insync.replicas (TIDELOG_MIN_INSYNC_REPLICAS) has no meaning here: a single broker has no "
            "other replicas.",
        ),
        (
            "TIDELOG_QUEUED_MAX_REQUESTS",
            "500",
            "queued.max.requests (TIDELOG_QUEUED_MAX_REQUESTS) has no meaning here: the requests of a "
            "connection are served in order, without a queue.",
        ),
    ],
)
def test_resolve_accepts_a_key_without_meaning_and_warns(variable: str, value: str, warning: str) -> None:
    config = Config(read_sources(environment={variable: value}), BUNDLE)
    assert config.warnings == (warning,)


def test_resolve_refuses_a_value_that_asks_for_a_missing_part() -> None:
    name = "remote.log.storage.system.enable"
    with pytest.raises(ConfigError, match=rf"{name}.*no part for \(tiered storage\)"):
        Config(read_sources(assignments=[f"{name}=true"]), BUNDLE)


def test_resolve_warns_of_a_setting_overridden_by_another_key() -> None:
    config = Config(read_sources(assignments=["log.roll.ms=5", "log.roll.hours=1"]), BUNDLE)
    assert config.warnings == ("log.roll.hours (--set) does nothing, since log.roll.ms is set.",)


def test_resolve_warns_of_an_only_with_setting_of_an_unselected_implementation() -> None:
    folder = ConfigKey(
        name="folder", type=string(), default="", documentation="", only_with=("storage", "file")
    )
    in_vain = Config(read_sources(assignments=["folder=x", "storage=memory"]), ConfigKeys([folder]))
    assert in_vain.warnings == (
        "folder (--set) does nothing: it counts with storage = file, and storage is memory.",
    )
    assert Config(read_sources(assignments=["folder=x"]), ConfigKeys([folder])).warnings == ()
    assert Config(read_sources(assignments=["storage=memory"]), ConfigKeys([folder])).warnings == ()
