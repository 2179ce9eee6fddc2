"""The metadata log of a storage: what is written when, and what is there afterwards."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.metadata_changes import allocate_producer_ids, leader_epochs, put_topics, remove_topics, topics_of
from tests.plugins.metadata_kraft.metadata_log import LOG, logged, metadata_dir, metadata_of, snapshots
from tests.plugins.storage_file.files import IdleTasks, LogDirectoryHarness
from tests.turns import turns_of_another_task
from tidelog.kernel import disk, pace
from tidelog.kernel.errors import StorageError
from tidelog.kernel.ids import encode_uuid_bytes
from tidelog.kernel.metadata import MetadataDelta, topic_image
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential
from tidelog.kernel.seams.metadata import BrokerRegistration
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.plugins.metadata_kraft import commits, housekeeping
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.testing import FailingDisk

FORMATTED = "00000000000000000000-0000000000.checkpoint"
REGISTRATION = BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None)
BOOTSTRAP = ["BEGIN_TRANSACTION", *["FEATURE_LEVEL"] * 6, "CONFIG", "END_TRANSACTION"]


async def test_metadata_log_has_the_records_of_each_change_and_restart(harness: LogDirectoryHarness) -> None:
    metadata = metadata_of(harness)
    await metadata.register_broker(REGISTRATION)
    record = topic_image("t", uuid4(), 2, {"retention.ms": "5"})
    await put_topics(metadata, record)
    await put_topics(metadata, topic_image("t", record.topic_id, 3, {"max.message.bytes": "9"}))
    await allocate_producer_ids(metadata, 1000)
    await harness.reopen()
    await remove_topics(metadata_of(harness), "t")
    changes = ["PARTITION_CHANGE"] * 3
    assert logged(metadata_dir(harness) / LOG) == [
        ["control 2", "control 5", "control 6"],
        BOOTSTRAP,
        ["REGISTER_BROKER", "BROKER_REGISTRATION_CHANGE"],
        ["TOPIC", "CONFIG", "PARTITION", "PARTITION"],
        ["CONFIG", "CONFIG", "PARTITION"],
        ["PRODUCER_IDS"],
        ["BROKER_REGISTRATION_CHANGE", *changes, "BROKER_REGISTRATION_CHANGE"],
        ["control 2"],
        changes,
        ["REMOVE_TOPIC"],
    ]


async def test_alter_scram_credentials_of_many_users_lets_other_tasks_run(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    credential = ScramCredential(b"salt", b"stored key", b"server key", 4096)
    changes = {CredentialKey(f"user-{number}", 1): credential for number in range(100)}
    append, turns_before_append = FilePartitionStore.append_batch, list[int]()
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
    async with turns_of_another_task() as turns:

        def counting(store: FilePartitionStore, *arguments: Any) -> None:
            turns_before_append.append(turns.count)
            append(store, *arguments)

        monkeypatch.setattr(FilePartitionStore, "append_batch", counting)
        await metadata_of(harness).commit(MetadataDelta(credentials=changes))
    assert [count > 190 for count in turns_before_append] == [True], "one batch, framed and encoded in turns"
    assert dict(metadata_of(harness).image.credentials) == changes


async def test_open_metadata_log_formats_a_new_directory_as_kafka_storage_does(
    harness: LogDirectoryHarness,
) -> None:
    assert logged(metadata_dir(harness) / FORMATTED) == [
        ["control 3", "control 5", "control 6"],
        ["FEATURE_LEVEL"] * 6,
        ["control 4"],
    ]
    assert (metadata_dir(harness) / FORMATTED).stat().st_size == 494 - len("127.0.0.1") + len("localhost")
    assert (metadata_dir(harness) / "partition.metadata").read_text() == (
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )


async def test_begin_epoch_on_every_start_is_recorded_in_quorum_state(harness: LogDirectoryHarness) -> None:
    for _ in range(3):
        await harness.reopen()
    state = {"leaderId": 1, "leaderEpoch": 4, "votedId": -1, "votedDirectoryId": "A" * 22, "data_version": 1}
    assert json.loads((metadata_dir(harness) / "quorum-state").read_text()) == state
    rows = (metadata_dir(harness) / "leader-epoch-checkpoint").read_text().splitlines()
    assert rows[:2] == ["0", "4"]
    assert [row.split(" ")[0] for row in rows[2:]] == ["1", "2", "3", "4"]


async def test_broker_epoch_is_written_to_the_clean_shutdown_file_on_close(
    harness: LogDirectoryHarness,
) -> None:
    await metadata_of(harness).register_broker(REGISTRATION)
    epoch = metadata_of(harness).broker_epoch
    assert epoch > 0
    await harness.close()
    mark = json.loads((harness.log_dir / ".kafka_cleanshutdown").read_text())
    assert mark == {"version": 0, "brokerEpoch": epoch}


async def test_leader_epochs_in_the_metadata_log_increase_with_every_start(
    harness: LogDirectoryHarness,
) -> None:
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 2, {}, (0, 7)))
    assert leader_epochs(metadata_of(harness)) == (0, 7)
    await harness.reopen()
    # The clean stop gave the lead up, the start took it again.
    assert leader_epochs(metadata_of(harness)) == (2, 9)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    assert leader_epochs(metadata_of(crashed)) == (3, 10)
    await crashed.close()


async def test_assigned_directory_is_recorded_for_each_partition(
    tmp_path_factory: pytest.TempPathFactory, tasks: BackgroundTasks
) -> None:
    place = tmp_path_factory.mktemp("jbod")
    harness = LogDirectoryHarness(place, tasks, {"log.dirs": f"{place}/a,{place}/b"})
    await harness.open()
    specs = [harness.spec("t", number) for number in range(4)]
    await harness.storage.open_partitions(specs)
    await put_topics(metadata_of(harness), topic_image("t", specs[0].topic_id, 4))
    await metadata_of(harness).register_broker(REGISTRATION)
    ids = {
        name: next(
            line.partition("=")[2]
            for line in (place / name / "meta.properties").read_text().splitlines()
            if line.startswith("directory.id")
        )
        for name in "ab"
    }
    image = metadata_of(harness).records
    for number, partition in image.topics[specs[0].topic_id.bytes].partitions.items():
        (home,) = [name for name in "ab" if (place / name / f"t-{number}").exists()]
        assert [encode_uuid_bytes(each) for each in partition.directories] == [ids[home]]
    assert {encode_uuid_bytes(each) for each in image.brokers[1].log_dirs} == set(ids.values())
    # A partition that was moved while nobody looked is found, and its new place is told.
    await harness.close()
    moved = next(place.glob("a/t-*"))
    moved.rename(place / "b" / moved.name)
    await harness.open_again()
    partition = metadata_of(harness).records.topics[specs[0].topic_id.bytes].partitions[int(moved.name[2:])]
    assert [encode_uuid_bytes(each) for each in partition.directories] == [ids["b"]]
    await harness.close()


async def test_metadata_directory_is_the_configured_metadata_log_dir(
    tmp_path_factory: pytest.TempPathFactory, tasks: BackgroundTasks
) -> None:
    place = tmp_path_factory.mktemp("apart")
    settings = {"log.dirs": str(place / "data"), "metadata.log.dir": str(place / "meta")}
    harness = LogDirectoryHarness(place, tasks, settings)
    await harness.open()
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t"]
    assert (place / "meta/__cluster_metadata-0").is_dir()
    assert (place / "meta/meta.properties").exists()
    assert not (place / "data/__cluster_metadata-0").exists()
    await harness.close()


async def test_metadata_log_snapshots_are_taken_and_old_ones_deleted_by_maintain(
    tmp_path_factory: pytest.TempPathFactory, tasks: BackgroundTasks
) -> None:
    limits = {
        "metadata.log.max.record.bytes.between.snapshots": 2000,
        "metadata.max.retention.bytes": 8_500_000,
        "metadata.log.segment.bytes": 8 * 1024 * 1024,
    }
    harness = LogDirectoryHarness(tmp_path_factory.mktemp("snapshots"), tasks, limits)
    await harness.open()
    topic_id = uuid4()
    for step in range(40):
        await put_topics(metadata_of(harness), topic_image("t", topic_id, 1, {"note": "x" * 900 + str(step)}))
    names = snapshots(harness)
    assert len(names) > 10
    await harness.reopen()
    assert topics_of(metadata_of(harness))[0].config == {"note": "x" * 900 + "39"}
    # A second segment, and more than may be kept: the first segment and the snapshots of its time go.
    for step in range(2):
        large = {f"note-{number}": "y" * 30_000 for number in range(100)}
        await put_topics(metadata_of(harness), topic_image("t", topic_id, 1, large))
        await put_topics(metadata_of(harness), topic_image("t", topic_id, 1, {"note": str(step)}))
    await metadata_of(harness).maintain()
    assert len(snapshots(harness)) < len(names)
    await harness.reopen()
    assert topics_of(metadata_of(harness))[0].config == {"note": "1"}
    await harness.close()


async def test_background_tasks_of_the_metadata_log_do_nothing_once_it_is_closed(
    tmp_path_factory: pytest.TempPathFactory, tasks: BackgroundTasks
) -> None:
    harness = LogDirectoryHarness(tmp_path_factory.mktemp("closed"), tasks)
    await harness.open()
    metadata = metadata_of(harness)
    await harness.close()
    # As while a broker stops: its tasks run until everything is closed.
    for task in metadata.background_tasks():
        await task.run()


async def test_maintain_takes_a_snapshot_of_a_changed_metadata_log_after_the_interval(
    tmp_path_factory: pytest.TempPathFactory, tasks: BackgroundTasks
) -> None:
    harness = LogDirectoryHarness(tmp_path_factory.mktemp("interval"), tasks)
    await harness.open()
    for expected in (1, 2, 2):
        await metadata_of(harness).maintain()
        assert len(snapshots(harness)) == expected
        harness.clock.advance(3_600_001)
    await harness.close()


@pytest.mark.parametrize("damage", ["cut", "flipped", "part"])
async def test_open_metadata_log_ignores_a_damaged_snapshot(
    harness: LogDirectoryHarness, damage: str
) -> None:
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    harness.clock.advance(3_600_001)
    await metadata_of(harness).maintain()
    await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    await harness.close()
    newest = metadata_dir(harness) / snapshots(harness)[-1]
    content = newest.read_bytes()
    if damage == "cut":
        newest.write_bytes(content[:-75])
    elif damage == "flipped":
        newest.write_bytes(content[:150] + bytes((content[150] ^ 1,)) + content[151:])
    else:
        newest.rename(f"{newest}.part")
    await harness.open_again()
    assert sorted(topic.name for topic in topics_of(metadata_of(harness))) == ["t", "u"]
    assert not list(metadata_dir(harness).glob("*.part"))


async def test_a_log_that_ends_before_its_snapshot_goes_on_there(harness: LogDirectoryHarness) -> None:
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    harness.clock.advance(3_600_001)
    await metadata_of(harness).maintain()
    await harness.close()
    path = metadata_dir(harness) / LOG
    path.write_bytes(path.read_bytes()[:200])
    await harness.open_again()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t"]
    await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t", "u"]


@pytest.mark.parametrize("left", [1, 60, 61, 100])
async def test_open_metadata_log_truncates_a_torn_tail(harness: LogDirectoryHarness, left: int) -> None:
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    path = metadata_dir(harness) / LOG
    size = path.stat().st_size
    await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    torn = metadata_dir(crashed) / LOG
    torn.write_bytes(torn.read_bytes()[: size + left])
    await crashed.open()
    assert [topic.name for topic in topics_of(metadata_of(crashed))] == ["t"]
    await crashed.close()


async def test_put_topic_succeeds_although_write_snapshot_of_the_metadata_log_fails(
    tmp_path_factory: pytest.TempPathFactory,
    tasks: BackgroundTasks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = {"metadata.log.max.record.bytes.between.snapshots": 100}
    harness = LogDirectoryHarness(tmp_path_factory.mktemp("refused"), tasks, limits)
    await harness.open()
    there = len(snapshots(harness))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(housekeeping, "write_snapshot", refuse)
        for name in ("t", "u"):
            await put_topics(metadata_of(harness), topic_image(name, uuid4(), 1))
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t", "u"]
    assert caplog.text.count("no snapshot of") == 1
    assert len(snapshots(harness)) == there
    harness.clock.advance(housekeeping.RETRY_AFTER_MS)
    await metadata_of(harness).maintain()
    assert len(snapshots(harness)) == there + 1
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t", "u"]
    await harness.close()


@pytest.mark.parametrize("name", ["pwrite", "sync_data"])
async def test_put_topic_changes_nothing_when_the_metadata_log_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Without background tasks: files that they write meanwhile would be refused, too.
    harness = LogDirectoryHarness(tmp_path, IdleTasks())
    await harness.open()
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(disk, name, refuse)
        with pytest.raises(OSError, match="Input/output"):
            await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t"]
    if name == "sync_data":
        # After a failed flush nobody knows what is on the disk, so nothing is promised before a restart.
        with pytest.raises(OSError, match="an earlier flush failed"):
            await allocate_producer_ids(metadata_of(harness), 1)
        with pytest.raises(StorageError, match=r"the metadata log: .*an earlier flush failed"):
            await harness.close()
        await harness.open_again()
        assert [topic.name for topic in topics_of(metadata_of(harness))] in (["t"], ["t", "u"])
    else:
        await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    await harness.close()


@pytest.mark.parametrize(("refused", "later"), [("pwrite", 50), ("pwrite", 1), ("pwrite truncate", 0)])
async def test_put_topic_of_several_batches_is_in_the_log_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, later: int
) -> None:
    monkeypatch.setattr(commits, "_CHUNK_BYTES", 200)
    failing = FailingDisk()
    harness = LogDirectoryHarness(tmp_path / "first", IdleTasks())
    with failing.installed():
        await harness.open()
        failing.refuse(errno.ENOSPC, refused.split(), after=2, paths=lambda path: path.endswith(LOG))
        with pytest.raises(OSError, match="No space"):
            await put_topics(metadata_of(harness), topic_image("large", uuid4(), 50))
        failing.recover()
        assert not topics_of(metadata_of(harness))
        if later:
            await put_topics(metadata_of(harness), topic_image("later", uuid4(), later))
        crashed = harness.crash(tmp_path / "crashed")
    await crashed.open()
    found = [(topic.name, len(topic.partitions)) for topic in topics_of(metadata_of(crashed))]
    assert found == ([("later", later)] if later else [])
    await put_topics(metadata_of(crashed), topic_image("last", uuid4(), 50))
    await crashed.reopen()
    assert ("last", 50) in [(topic.name, len(topic.partitions)) for topic in topics_of(metadata_of(crashed))]
    await crashed.close()
    harness.abandon()


async def test_a_corrupt_checkpoint_of_epochs_is_rebuilt_and_warned_of(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = metadata_dir(harness) / "leader-epoch-checkpoint"
    await harness.reopen()
    before = checkpoint.read_text().splitlines()[2:]
    await harness.close()
    checkpoint.write_text("0\nmany\n")
    await harness.reopen()
    assert checkpoint.read_text().splitlines()[2:][: len(before)] == before
    assert "rebuilding it from the log" in caplog.text
