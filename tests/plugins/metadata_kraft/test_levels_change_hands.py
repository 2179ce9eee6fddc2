"""Directories at each level of `metadata.version` change hands between Apache Kafka and tidelog."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tests.peers import KafkaServer, TidelogServer, find_kafka
from tests.plugins.metadata_kraft.hands import KAFKA_SETTINGS, Client, tidelog_on
from tests.plugins.metadata_kraft.test_change_of_hands import DUMP, dump_metadata
from tidelog.kernel.records.batch import parse_header
from tidelog.plugins.metadata_kraft.encoding import data_batch, frame
from tidelog.plugins.metadata_kraft.records.cluster import RegisterControllerRecord

METADATA, KRAFT = "metadata.version", "kraft.version"
TOOL = "org.apache.kafka.tools.FeatureCommand"
SINCE_4_0 = {"group.version": 1, "transaction.version": 2}
SINCE_4_2 = {**SINCE_4_0, "eligible.leader.replicas.version": 1, "share.version": 1, "streams.version": 1}
SINCE_4_4 = {**SINCE_4_2, "share.version": 2}

Server = KafkaServer | TidelogServer


def features(server: Server, *arguments: str, fails: bool = False) -> str:
    """Run kafka-features.sh and return what it prints."""
    ended = find_kafka().run_tool(TOOL, ["--bootstrap-server", server.bootstrap, *arguments])
    assert (ended.returncode != 0) == fails, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def described(server: Server) -> dict[str, str]:
    """All finalized levels above 0, as kafka-features.sh prints them."""
    levels = re.findall(
        r"^Feature: (\S+) .*FinalizedVersionLevel: (\S+)", features(server, "describe"), re.MULTILINE
    )
    return {name: level for name, level in levels if level != "0"}


def kafka_at(data: Path, work: Path, release: str | None, *, dynamic_quorum: bool = False) -> KafkaServer:
    """Apache Kafka, which formats a directory that is empty with the levels of `release`."""
    return KafkaServer(
        find_kafka(),
        work,
        KAFKA_SETTINGS,
        data_dir=data,
        release_version=release,
        dynamic_quorum=dynamic_quorum,
    )


@attrs.frozen
class Format:
    """Who formats a directory, and with what."""

    release: str | None
    level: str
    features: dict[str, int] = attrs.field(factory=dict[str, int])
    by_kafka: bool = True
    dynamic_quorum: bool = False

    def __str__(self) -> str:
        return f"{self.level} by {'Kafka' if self.by_kafka else 'tidelog'}"


@pytest.mark.long
@pytest.mark.parametrize(
    "new",
    [
        Format("3.7-IV2", "3.7-IV2"),
        Format("3.9", "3.9-IV0"),
        Format("4.0", "4.0-IV3", SINCE_4_0),
        Format("4.3", "4.3-IV0", SINCE_4_2),
        Format("4.4-IV0", "4.4-IV0", SINCE_4_4),
        Format("4.4-IV1", "4.4-IV1", SINCE_4_4),
        Format("4.4", "4.4-IV2", SINCE_4_4),
        Format("4.4", "4.4-IV2", {**SINCE_4_4, KRAFT: 1}, dynamic_quorum=True),
        Format(None, "4.4-IV2", {**SINCE_4_4, KRAFT: 1}, by_kafka=False),
    ],
    ids=str,
)
def test_a_directory_of_each_level_changes_hands_before_its_first_start_and_after(
    tmp_path: Path, new: Format
) -> None:
    """A new log begins with the levels that formatting wrote, whoever starts it first (KIP-1170)."""
    data = tmp_path / "data"
    kafka = kafka_at(data, tmp_path / "kafka", new.release, dynamic_quorum=new.dynamic_quorum)
    tidelog = tidelog_on(data, tmp_path / "tidelog")
    expected = {METADATA: new.level, **{name: str(level) for name, level in new.features.items()}}
    try:
        if new.by_kafka:
            kafka.prepare()
        servers: list[Server] = [tidelog, kafka, tidelog]
        for turn, server in enumerate(servers):
            server.start()
            # What the first one has made of them is what the second one finds.
            assert turn == 0 or described(server) == expected
            client = Client(server.bootstrap)
            client.create(f"topic-{turn}", 1 + turn)
            for earlier in range(turn + 1):
                client.produce(f"topic-{earlier}", 0, [b"%d" % turn])
            seen = client.see()
            assert [seen[f"topic-{earlier}"].records[0] for earlier in range(turn + 1)] == [
                tuple(b"%d" % later for later in range(earlier, turn + 1)) for earlier in range(turn + 1)
            ]
            server.stop()
        dump_metadata(data)
    finally:
        kafka.stop()
        tidelog.stop()


@pytest.mark.long
@pytest.mark.parametrize("by_tidelog", [True, False])
def test_kafka_features_upgrades_all_levels_here_as_on_apache_kafka(
    tmp_path: Path, *, by_tidelog: bool
) -> None:
    """Also `kraft.version`: the directory was formatted with `controller.quorum.voters`."""
    data = tmp_path / "data"
    kafka, tidelog = kafka_at(data, tmp_path / "kafka", "4.3"), tidelog_on(data, tmp_path / "tidelog")
    upgraded = {METADATA: "4.4-IV2", **{name: str(level) for name, level in SINCE_4_4.items()}, KRAFT: "1"}
    first, second = (tidelog, kafka) if by_tidelog else (kafka, tidelog)
    try:
        kafka.prepare()
        first.start()
        assert described(first)[METADATA] == "4.3-IV0"
        Client(first.bootstrap).create("orders", 1)
        assert "kraft.version was upgraded to 1." in features(first, "upgrade", "--release-version", "4.4")
        for server in (first, second):
            assert described(server) == upgraded
            refused = features(server, "downgrade", "--release-version", "4.3", fails=True)
            assert "7 out of 7 operation(s) failed." in refused
            assert described(server) == upgraded
            server.stop()
            if server is first:
                second.start()
        first.start()
        assert list(Client(first.bootstrap).see()) == ["orders"]
    finally:
        kafka.stop()
        tidelog.stop()


@pytest.mark.long
def test_a_controller_that_kafka_unregistered_is_gone_for_tidelog_and_kafka(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka = kafka_at(data, tmp_path / "kafka", None)
    tidelog = tidelog_on(
        data, tmp_path / "tidelog", **{"metadata.log.max.record.bytes.between.snapshots": "1"}
    )
    log = data / "__cluster_metadata-0" / "00000000000000000000.log"
    try:
        kafka.start()
        kafka.stop()
        register_controller(log, 2)
        kafka.start()
        assert "Controller 2 is no longer registered." in unregister(kafka, 2)
        kafka.stop()
        tidelog.start()
        Client(tidelog.bootstrap).create("orders", 1)
        tidelog.stop()
        snapshot = max((data / "__cluster_metadata-0").glob("*.checkpoint"))
        dumped = find_kafka().run_tool(DUMP, ["--cluster-metadata-decoder", "--files", str(snapshot)]).stdout
        assert re.findall(r'"controllerId":(\d+)', dumped) == ["1"]
        kafka.start()
        assert "Controller ID 2 is not currently registered." in unregister(kafka, 2)
        assert list(Client(kafka.bootstrap).see()) == ["orders"]
    finally:
        kafka.stop()
        tidelog.stop()


def unregister(server: KafkaServer, node_id: int) -> str:
    """Unregister a controller by Kafka's tool and return what it prints."""
    arguments = ["unregister-controller", "--bootstrap-server", server.bootstrap, "--id", str(node_id)]
    ended = find_kafka().run_tool("org.apache.kafka.tools.ClusterTool", arguments)
    return ended.stdout + ended.stderr


def register_controller(log: Path, node_id: int) -> None:
    """Append the registration of another controller, as one of a larger quorum would have left it."""
    content = log.read_bytes()
    position, header = 0, parse_header(content)
    while position < len(content):
        header = parse_header(content, position)
        position += header.size
    record = RegisterControllerRecord(
        controller_id=node_id,
        incarnation_id=bytes(range(16)),
        zk_migration_ready=False,
        end_points=[],
        features=[],
    )
    with log.open("ab") as file:
        file.write(data_batch([frame(record)], header.next_offset, header.leader_epoch, header.max_timestamp))
