"""`CoordinatorRuntime`: changes are appended and applied, all or none, and read back by the same methods."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.plugins.coordinator.groups.group_coordinator import PARTITIONS, FakeLog
from tidelog.kernel.errors import NotCoordinator, StorageError
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.records.control import EndMarker
from tidelog.kernel.seams.coordination.offsets import CommittedOffset
from tidelog.kernel.testing import FakeClock
from tidelog.plugins.coordinator.offsets.records import OffsetChange
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime import runtime as module
from tidelog.plugins.coordinator.runtime.deadlines import Deadlines
from tidelog.plugins.coordinator.runtime.durable_change import UnreadableRecord
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, CoordinatorState, Steps, wait_for

PLACE = ("t", 0)
PRODUCER = (7, 3)
NEW = OffsetChange("g", PLACE, CommittedOffset(5))
KEY_TYPE = 9
KEY = KEY_TYPE.to_bytes(2)


class Notes(CoordinatorState):
    """A kind of coordinator that notes what it is asked to do."""

    record_types = (KEY_TYPE,)

    def __init__(self) -> None:
        self.calls: list[object] = []

    def replay(self, partition: int, batch: LoadedBatch, index: int) -> Steps | None:
        key, value = batch.records[index]
        if value == b"bad":
            raise UnreadableRecord("it is bad")
        if value == b"long":
            return self._in_steps(partition)
        self.calls.append((partition, key, value))
        return None

    def _in_steps(self, partition: int) -> Steps:
        yield
        self.calls.append((partition, "long"))

    def loaded(self, partition: int) -> None:
        self.calls.append(("loaded", partition))

    def forget(self, partition: int) -> None:
        self.calls.append(("forget", partition))


class OpenRuntime:
    """A runtime over a log in memory, with the offsets of groups and a kind that takes notes."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.runtime = CoordinatorRuntime("__consumer_offsets", self.log, FakeClock(), Deadlines())
        self.store = OffsetStore(lambda group_id: None)
        self.notes = Notes()
        self.runtime.open(self.store, self.notes)

    @property
    def committed(self) -> CommittedOffset | None:
        """The offset that the group has committed."""
        return self.store.table(0).committed("g").get(PLACE)

    def replay(self, *records: StateRecord, partition: int = 0) -> None:
        """Read a batch back."""
        run_to_end(self.runtime.replay(partition, LoadedBatch(0, records)))


@pytest.fixture
def opened() -> OpenRuntime:
    return OpenRuntime()


def test_write_appends_one_batch_and_applies_what_it_appended(opened: OpenRuntime) -> None:
    other = StateRecord(b"\0\2\0\1g", None)
    assert opened.runtime.write(0, opened.store.table(0), [NEW], more=[other]) is None
    assert opened.log.batches == [(0, [NEW.to_record(), other])]
    assert opened.committed == CommittedOffset(5)


def test_write_that_is_refused_changes_nothing(opened: OpenRuntime) -> None:
    opened.log.refusal = StorageError("full")
    with pytest.raises(StorageError):
        opened.runtime.write(0, opened.store.table(0), [NEW])
    assert opened.committed is None


@pytest.mark.parametrize(("commit", "offset"), [(True, CommittedOffset(5)), (False, None)])
def test_write_for_a_producer_counts_once_its_transaction_is_committed(
    opened: OpenRuntime, commit: bool, offset: CommittedOffset | None
) -> None:
    opened.runtime.write(0, opened.store.table(0), [NEW], producer=PRODUCER)
    assert opened.committed is None
    opened.runtime.complete_transaction(0, PRODUCER[0], commit)
    assert opened.committed == offset


async def test_commit_fails_if_what_was_written_cannot_be_flushed(opened: OpenRuntime) -> None:
    opened.log.flush_due = True
    opened.log.flushed.set()
    opened.log.flush_error = StorageError("the disk is gone")
    with pytest.raises(StorageError):
        await opened.runtime.commit(0, opened.store.table(0), [NEW])
    assert opened.committed == CommittedOffset(5), "it is in the log"
    await wait_for(None)


def test_replay_hands_each_record_to_the_state_of_its_type(opened: OpenRuntime) -> None:
    opened.replay(NEW.to_record(), StateRecord(KEY, b"x"), StateRecord(KEY, b"long"), StateRecord(KEY, None))
    assert opened.committed == CommittedOffset(5)
    assert opened.notes.calls == [(0, KEY, b"x"), (0, "long"), (0, KEY, None)]


def test_replay_of_a_marker_ends_the_transaction(opened: OpenRuntime) -> None:
    pending = LoadedBatch(0, [NEW.to_record()], *PRODUCER, is_transactional=True)
    run_to_end(opened.runtime.replay(0, pending))
    assert opened.committed is None
    marker = LoadedBatch(1, (), *PRODUCER, is_transactional=True, marker=EndMarker(True, 0))
    run_to_end(opened.runtime.replay(0, marker))
    assert opened.committed == CommittedOffset(5)


def test_replay_leaves_out_what_cannot_be_read_and_logs_some_of_it(
    opened: OpenRuntime, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOGGED", 2)
    bad: Sequence[StateRecord] = [StateRecord(KEY, b"bad")] * 3
    opened.replay(StateRecord(b"\1", b""), *bad, StateRecord(KEY, b"x"), partition=1)
    assert opened.notes.calls == [(1, KEY, b"x")]
    assert caplog.text.count("of __consumer_offsets-1 cannot be read and is left out") == 2
    opened.runtime.loaded(1)
    assert "__consumer_offsets-1 has 2 more records that cannot be read" in caplog.text
    assert opened.notes.calls[-1] == ("loaded", 1)


def test_replay_logs_a_type_of_later_brokers_once(
    opened: OpenRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    opened.replay(*[StateRecord(b"\0\x63", b"")] * 3)
    assert caplog.text.count("has records of type 99, which are left as they are") == 1
    assert "cannot be read" not in caplog.text


def test_forget_reaches_every_kind(opened: OpenRuntime) -> None:
    opened.runtime.write(0, opened.store.table(0), [NEW])
    opened.runtime.forget(0)
    assert opened.committed is None
    assert opened.notes.calls == [("forget", 0)]


def test_active_partition_for_is_that_of_kafka_and_has_to_be_active(opened: OpenRuntime) -> None:
    partition = opened.runtime.active_partition_for("g")
    assert partition == opened.runtime.partition_for("g") == ord("g") % PARTITIONS
    opened.log.inactive[partition] = NotCoordinator("another broker leads")
    with pytest.raises(NotCoordinator):
        opened.runtime.active_partition_for("g")
