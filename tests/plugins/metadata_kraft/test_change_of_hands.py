"""A directory changes hands between Apache Kafka and tidelog, again and again; nothing is lost or changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.deadlines import DEADLINE_S
from tests.peers import KafkaServer, ServerFailedError, TidelogServer, find_kafka
from tests.plugins.metadata_kraft.hands import Client, Seen, kafka_on, tidelog_on

DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = {"max.message.bytes": "2000000"}
SNAPSHOT_ALWAYS = {"metadata.log.max.record.bytes.between.snapshots": "1"}
KAFKAS_CONFIG = {"cleanup.policy": "compact", "retention.ms": "1234567"}


def dump_metadata(data: Path, *, stopped: bool = True) -> str:
    """What Kafka's own tool says of the files of the metadata log; fails when it finds fault.

    Indexes are looked at after a clean stop only: those of a killed broker are preallocated.
    """
    patterns = ("*.log", "*.checkpoint", *(("*.index", "*.timeindex") if stopped else ()))
    found = [path for pattern in patterns for path in sorted((data / "__cluster_metadata-0").glob(pattern))]
    files = ",".join(map(str, found))
    told = find_kafka().run_tool(DUMP, ["--cluster-metadata-decoder", "--files", files])
    assert told.returncode == 0, told.stderr
    assert "isvalid: true" in told.stdout
    for fault in ("isvalid: false", "Could not decode", "Exception", "mismatch", "out of order", "corrupt"):
        assert fault not in told.stdout + told.stderr
    return told.stdout


def kafkas_own_state(client: Client) -> object:
    """What only Kafka can tell of: configuration that tidelog has no key for, offsets, credentials."""
    told = client.admin.describe_user_scram_credentials(["bob"])
    assert isinstance(told, dict)
    credentials = told["bob"].result(DEADLINE_S).scram_credential_infos
    iterations = [info.iterations for info in credentials]
    configs = {name: client.topic_config(name) for name in ("orders", "compacted")}
    return configs, client.committed("group", "orders"), iterations


def leave_state_of_kafkas_own(client: Client) -> None:
    """Make all that `kafkas_own_state` tells of."""
    client.create("compacted", 3, KAFKAS_CONFIG)
    client.produce("orders", 1, [b"k1"])
    client.commit("group", "orders", 2)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("bob", info, b"password")
    for future in client.admin.alter_user_scram_credentials([upsertion]).values():
        future.result(DEADLINE_S)


def test_after_clean_stops_everything_is_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 2, CONFIG)
        client.create("gone", 1)
        client.produce("orders", 0, [b"t1", b"t2"])
        before = client.see()
        assert before["orders"].records == ((b"t1", b"t2"), ())
        tidelog.stop()
        dump_metadata(data)

        kafka.start()
        client = Client(kafka.bootstrap)
        assert client.see() == before
        leave_state_of_kafkas_own(client)
        before, own = client.see(), kafkas_own_state(client)
        assert own == ({"orders": CONFIG, "compacted": KAFKAS_CONFIG}, 2, [4096])
        kafka.stop()

        tidelog.start()
        client = Client(tidelog.bootstrap)
        assert client.see() == before
        client.produce("orders", 0, [b"t3"])
        client.delete("gone")
        client.create("late", 1)
        before = client.see()
        tidelog.stop()
        assert "USER_SCRAM_CREDENTIAL_RECORD" in dump_metadata(data)

        kafka.start()
        client = Client(kafka.bootstrap)
        assert sorted(before) == ["compacted", "late", "orders"]
        assert (client.see(), kafkas_own_state(client)) == (before, own)
    finally:
        kafka.stop()
        tidelog.stop()


@pytest.mark.long
def test_change_of_hands_between_kafka_and_tidelog_after_kills_loses_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka = kafka_on(data, tmp_path / "kafka", **SNAPSHOT_ALWAYS)
    tidelog = tidelog_on(data, tmp_path / "tidelog", **SNAPSHOT_ALWAYS)
    before: dict[str, Seen] = {}
    try:
        servers: list[KafkaServer | TidelogServer] = [kafka, tidelog, kafka, tidelog]
        for turn, server in enumerate(servers):
            server.start()
            client = Client(server.bootstrap)
            assert client.see() == before
            client.create(f"topic-{turn}", 1 + turn % 2)
            for earlier in range(turn + 1):
                client.produce(f"topic-{earlier}", 0, [b"%d" % turn] * 3)
            before = client.see()
            assert len(before) == turn + 1
            server.kill()
        dump_metadata(data, stopped=False)
        tidelog.start()
        assert Client(tidelog.bootstrap).see() == before
    finally:
        kafka.kill()
        tidelog.stop()


@pytest.mark.long
def test_write_snapshot_makes_a_snapshot_from_which_kafka_starts_without_the_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka = kafka_on(data, tmp_path / "kafka")
    tidelog = tidelog_on(data, tmp_path / "tidelog", **SNAPSHOT_ALWAYS)
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 2, CONFIG)
        client.create("gone", 1)
        client.delete("gone")
        client.produce("orders", 0, [b"t1", b"t2"])
        before = client.see()
        tidelog.stop()
        assert "Snapshot end offset" in dump_metadata(data)
        for path in (data / "__cluster_metadata-0").glob("00000000000000000000.*"):
            path.unlink()

        kafka.start()
        client = Client(kafka.bootstrap)
        assert client.see() == before
        assert client.topic_config("orders") == CONFIG
    finally:
        kafka.stop()
        tidelog.stop()


def test_a_directory_of_another_node_is_refused_by_both_ids(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka = kafka_on(
        data, tmp_path / "kafka", **{"node.id": "7", "controller.quorum.voters": "7@localhost:9093"}
    )
    kafka.prepare()
    tidelog = tidelog_on(data, tmp_path / "tidelog")
    with pytest.raises(ServerFailedError, match=r"says node.id=7, but this broker's is 1"):
        tidelog.start()
