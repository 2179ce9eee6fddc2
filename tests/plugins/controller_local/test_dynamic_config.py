"""Keys of the broker that are set while it runs: what is refused, what counts at once and after a restart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.crash.core import Core
from tidelog.kernel.config import UnsupportedKey, keys
from tidelog.kernel.config.unsupported import UnsupportedKeys
from tidelog.kernel.errors import BrokerError, InvalidConfig, InvalidRequest
from tidelog.kernel.metadata import ConfigOwner, MetadataDelta
from tidelog.kernel.seams.controller import Controller
from tidelog.kernel.seams.storage.keys import SEGMENT_MS
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.config_changes import replaced_by


def dynamic(core: Core) -> Controller:
    """Return what alters the broker's own keys, which are those of the image."""
    core.dynamic_config.load(core.metadata.image)
    return core.controller


def settings(core: Core, node_id: int | None) -> dict[str, str]:
    """Return what is set for a broker, or with None for all."""
    return dict(core.metadata.image.config(ConfigOwner.of_broker(node_id)))


async def test_alter_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("orders", 1)
    changes = dynamic(core)
    await changes.alter_broker_config(1, replaced_by([("log.flush.interval.messages", "7")]))
    of_cluster = [("log.flush.interval.messages", "9"), ("log.roll.ms", "5000"), ("min.insync.replicas", "1")]
    await changes.alter_broker_config(None, replaced_by(of_cluster))
    assert (topic.config[keys.FLUSH_MESSAGES], topic.config[SEGMENT_MS]) == (7, 5000)
    core.abandon()
    fresh = Core(tmp_path)
    await fresh.open()
    dynamic(fresh)
    await fresh.topics.refresh_configs()
    config = fresh.topics.get("orders").config
    assert (config[keys.FLUSH_MESSAGES], config[SEGMENT_MS]) == (7, 5000)
    await fresh.close()


@pytest.mark.parametrize(
    ("name", "text", "error", "words"),
    [
        (
            "node.id",
            "2",
            InvalidRequest,
            "node.id cannot be changed while the broker runs",
        ),
        ("log.roll.ms", "soon", InvalidRequest, "log.roll.ms = 'soon': is not a whole number (long)"),
        ("log.rol.ms", "5", InvalidConfig, "log.rol.ms is no key; did you mean log.roll.ms?"),
        (
            "listener.name.a.max.conections",
            "5",
            InvalidConfig,
            "is no key; did you mean listener.name.a.max.connections?",
        ),
        (
            "tls.version",
            "1",
            InvalidRequest,
            "tls.version is a Kafka key that this broker has no part for",
        ),
    ],
)
async def test_alter_refuses(
    tmp_path: Path, name: str, text: str, error: type[BrokerError], words: str
) -> None:
    core = Core(tmp_path)
    await core.open()
    core.config.keys.unsupported = UnsupportedKeys(
        UnsupportedKey(pattern, "broker", missing="TLS") for pattern in ("tls.*", "listener.name.*")
    )
    changes = dynamic(core)
    before = settings(core, None)
    with pytest.raises(error) as caught:
        await changes.alter_broker_config(
            None, replaced_by([("log.flush.interval.messages", "7"), (name, text)])
        )
    assert words in str(caught.value)
    assert settings(core, None) == before
    assert core.config[keys.LOG_FLUSH_INTERVAL_MESSAGES] == keys.LOG_FLUSH_INTERVAL_MESSAGES.default
    await core.close()


DYNAMIC_CHANGES = [
    ("max.connections", ["1"], ["0"]),
    ("max.connection.creation.rate", ["1"], ["0", "-1"]),
    ("listener.name.plaintext.max.connections", ["1"], ["0"]),
    ("max.connections.per.ip", ["1"], ["0"]),
    ("num.io.threads", ["4", "16"], ["3", "17"]),
    ("num.replica.fetchers", ["1", "2"], ["0", "3"]),
    ("num.recovery.threads.per.data.dir", ["1", "4"], ["0", "5"]),
    ("log.cleaner.threads", ["0", "2"], ["3"]),
    ("log.cleaner.io.max.bytes.per.second", ["0.5", "0", "-1"], ["fast"]),
    ("log.cleanup.policy", ["compact,delete"], ["delete,delete"]),
    ("log.retention.ms", ["-2", "1"], ["0", ""]),
    ("group.consumer.assignment.interval.ms", ["0", "15000"], ["15001"]),
    ("transaction.partition.verification.enable", ["false"], [""]),
]
"""By key, values that Apache Kafka takes beside its defaults, and values that it refuses."""


async def test_alter_takes_the_values_that_kafka_takes() -> None:
    async with running_broker() as broker:
        changes = broker.controller
        for key, taken, refused in DYNAMIC_CHANGES:
            for value in taken:
                await changes.alter_broker_config(1, replaced_by([(key, value)]), validate_only=True)
            for value in refused:
                with pytest.raises(InvalidRequest, match=re.escape(key)):
                    await changes.alter_broker_config(1, replaced_by([(key, value)]), validate_only=True)


async def test_alter_keeps_a_stored_value_beside_a_change_that_it_was_too_large_for() -> None:
    async with running_broker() as broker:
        changes = broker.controller
        for threads in ("16", "32"):
            await changes.alter_broker_config(1, replaced_by([("num.io.threads", threads)]))
        broker.dynamic_config.load(broker.image)
        assert broker.config.text("num.io.threads") == "32"


async def test_alter_with_validate_only_changes_nothing(tmp_path: Path) -> None:
    core = Core(tmp_path)
    await core.open()
    await dynamic(core).alter_broker_config(1, replaced_by([("log.roll.ms", "5000")]), validate_only=True)
    assert settings(core, 1) == {}
    assert core.config.default_topic_config[SEGMENT_MS] == SEGMENT_MS.default
    await core.close()


async def test_alter_keeps_min_insync_replicas_of_all_brokers_with_eligible_leader_replicas(
    tmp_path: Path,
) -> None:
    core = Core(tmp_path)
    await core.open()
    changes = dynamic(core)
    assert settings(core, None) == {"min.insync.replicas": "1"}
    with pytest.raises(InvalidConfig, match=r"^min\.insync\.replicas of all brokers cannot be removed"):
        await changes.alter_broker_config(None, replaced_by([]))
    assert settings(core, None) == {"min.insync.replicas": "1"}
    await core.close()


async def test_load_warns_once_of_a_stored_setting_that_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(tmp_path)
    await core.open()
    stored = {"log.roll.ms": "soon", "log.flush.interval.messages": "7"}
    await core.metadata.commit(MetadataDelta(configs={ConfigOwner.of_broker(1): stored}))
    for _ in range(2):
        dynamic(core)
    assert core.config[keys.LOG_FLUSH_INTERVAL_MESSAGES] == 7
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    expected = "set while the broker ran, not used: log.roll.ms = 'soon': is not a whole number (long)"
    assert warnings.count(expected) == 1
    await core.close()
