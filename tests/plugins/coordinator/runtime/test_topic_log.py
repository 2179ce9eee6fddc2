"""The log in a topic: made when it is needed, read back in slices, gone with its topic."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator

import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.metadata_changes import lead_partitions
from tidelog.kernel.broker import Broker
from tidelog.kernel.config.keys import STORAGE
from tidelog.kernel.errors import CoordinatorLoadInProgress, NotCoordinator, StorageError
from tidelog.kernel.metadata import ImageChange
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.runtime import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime.topic_log import TopicLog

SPEC = TopicSpec("__state", 3, config={"cleanup.policy": "compact"})


class Reader:
    """Notes all that it is told."""

    def __init__(self) -> None:
        self.replayed: list[tuple[int, LoadedBatch]] = []
        self.is_loaded: list[int] = []
        self.forgotten: list[int] = []
        self.steps = 0
        self.steps_done = 0
        self.on_forget: Callable[[], None] | None = None

    def replay(self, partition: int, batch: LoadedBatch) -> Generator[None, None, None]:
        self.replayed.append((partition, batch))
        yield

    def settle(self, partition: int) -> Generator[None, None, None]:
        for _ in range(self.steps):
            self.steps_done += 1
            yield

    def loaded(self, partition: int) -> None:
        self.is_loaded.append(partition)

    def forget(self, partition: int) -> None:
        self.forgotten.append(partition)
        if self.on_forget is not None:
            self.on_forget()


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A running broker."""
    async with running_broker() as broker:
        assert broker.config[STORAGE] == "memory"
        yield broker


def new_log(broker: Broker, load_bytes: int = 1000) -> tuple[TopicLog, Reader]:
    """A log that is open, and its reader."""
    log, reader = TopicLog(broker, SPEC, load_bytes=load_bytes), Reader()
    log.open(reader)
    follow_coordinator = broker.coordinator.follow

    async def follow(change: ImageChange) -> None:
        log.follow(change)
        await follow_coordinator(change)

    # In the place that the log of the broker's own coordinator has.
    vars(broker.coordinator)["follow"] = follow
    return log, reader


def record(number: int) -> StateRecord:
    return StateRecord(b"key-%d" % number, b"value-%d" % number)


async def read_to_its_end(log: TopicLog) -> None:
    while not log.progress.done:  # noqa: ASYNC110 nobody is told, it is a figure
        await trio.sleep(0.001)


def longest_step(seen: list[int], end: int) -> int:
    """How much was done at once, when so much had been done each time that others went on."""
    return max(after - before for before, after in zip(seen, [*seen[1:], end], strict=True))


async def test_ensure_creates_the_topic(broker: Broker) -> None:
    log, reader = new_log(broker)
    assert log.partition_count == 3
    with pytest.raises(NotCoordinator):
        log.append(0, [record(0)])
    await log.ensure()
    await log.ensure()
    assert broker.topics.get("__state").overrides == SPEC.config
    assert reader.is_loaded == [0, 1, 2]
    result = log.append(1, [record(0), record(1)])
    await log.committed(1, result)
    assert (result.base_offset, result.last_offset) == (0, 1)


async def test_append_logs_once_a_minute_for_each_partition_that_it_is_refused(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    for partition in broker.topics.get("__state").partitions[:2]:
        partition.log.take_offline(StorageError("no space left"))
    for number in range(20):
        with pytest.raises(NotCoordinator):
            log.append(number % 2, [record(number)])
    lines = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert lines == [f"__state-{index} cannot be written: no space left" for index in (0, 1)]


async def test_partition_count_of_an_existing_topic(broker: Broker) -> None:
    await broker.topics.create(TopicSpec("__state", 5))
    log, reader = new_log(broker)
    assert log.partition_count == 5
    assert reader.is_loaded == [0, 1, 2, 3, 4]


async def test_open_loads_what_was_appended_in_order(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    for number in range(300):
        log.append(number % 2, [record(number), record(-number)], producer=(7, 0) if number == 299 else None)
    broker.topics.get("__state").partitions[1].log.append_marker(7, 0, 0, commit=True)
    later, reader = new_log(broker)
    for partition in (0, 1):
        with pytest.raises(CoordinatorLoadInProgress):
            later.check_active(partition)
    later.append(2, [record(0)])
    await read_to_its_end(later)
    assert [(partition, batch.records) for partition, batch in reader.replayed[:-1]] == [
        (partition, [record(number), record(-number)])
        for partition in (0, 1)
        for number in range(partition, 300, 2)
    ]
    last = reader.replayed[-1][1]
    assert last.marker is not None
    assert (last.producer_id, last.marker.commit) == (7, True)
    assert reader.is_loaded == [2, 0, 1]
    assert (later.progress.partitions, later.progress.records) == (2, 600)
    later.append(0, [record(1000)])


async def test_loading_lets_other_tasks_run(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    log, _ = new_log(broker)
    await log.ensure()
    for _ in range(20):
        log.append(0, [record(number) for number in range(500)])
    later, reader = new_log(broker, load_bytes=10_000_000)
    seen: list[int] = []
    while not later.progress.done:
        seen.append(len(reader.replayed))
        await trio.lowlevel.checkpoint()
    assert longest_step(seen, 20) <= 2


async def test_settle_lets_other_tasks_run_and_the_partition_is_active_after_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    later, reader = new_log(broker)
    reader.steps = 1000
    seen = [0]
    while not later.progress.done:
        seen.append(reader.steps_done)
        with pytest.raises(CoordinatorLoadInProgress):
            later.check_active(0)
        await trio.lowlevel.checkpoint()
    assert longest_step(seen, 1000) <= 2
    later.check_active(0)


async def test_check_active_refuses_a_partition_deleted_while_it_settles(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    later, reader = new_log(broker)
    reader.steps = 100_000  # more than the deletion takes on a busy machine
    while not reader.steps_done:
        await trio.lowlevel.checkpoint()
    await broker.topics.delete("__state")
    await read_to_its_end(later)
    assert reader.steps_done < reader.steps
    assert 0 not in reader.is_loaded
    with pytest.raises(NotCoordinator):
        later.check_active(0)


async def test_loading_stops_when_the_topic_is_deleted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.kernel.pace.STEP_SECONDS", 0.0)
    log, _ = new_log(broker)
    await log.ensure()
    count = 400
    for _ in range(count):
        log.append(0, [record(number) for number in range(25)])
    later, reader = new_log(broker, load_bytes=10_000_000)
    while not reader.replayed:
        await trio.lowlevel.checkpoint()
    await broker.topics.delete("__state")
    seen = len(reader.replayed)
    assert seen < count
    await read_to_its_end(later)
    assert (len(reader.replayed), reader.steps_done) == (seen, 0)


async def test_forget_is_called_while_partition_count_is_still_that_of_the_topic(broker: Broker) -> None:
    await broker.topics.create(TopicSpec("__state", 5))
    log, reader = new_log(broker)
    counts: list[int] = []
    reader.on_forget = lambda: counts.append(log.partition_count)
    await broker.topics.delete("__state")
    assert (reader.forgotten, counts) == ([0, 1, 2, 3, 4], [5] * 5)
    assert log.partition_count == SPEC.partitions


async def test_ensure_creates_the_topic_again_after_its_deletion(broker: Broker) -> None:
    log, reader = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    await broker.topics.delete("__state")
    assert reader.forgotten == [0, 1, 2]
    with pytest.raises(NotCoordinator):
        log.append(0, [record(0)])
    await log.ensure()
    assert log.append(0, [record(0)]).base_offset == 0


async def test_check_active_refuses_a_partition_that_cannot_be_read(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    log.append(1, [record(1)])
    broker.topics.get("__state").partitions[0].log.take_offline()
    later, reader = new_log(broker)
    await read_to_its_end(later)
    with pytest.raises(NotCoordinator, match="cannot be read"):
        later.check_active(0)
    later.check_active(1)
    assert [batch.records for _, batch in reader.replayed] == [[record(1)]]


async def test_append_is_refused_after_close(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.close()
    with pytest.raises(NotCoordinator):
        log.append(0, [record(0)])


async def change_leadership(broker: Broker, number: int, *, leads: bool) -> None:
    leader_id = broker.cluster.node_id if leads else broker.cluster.node_id + 1
    await lead_partitions(broker, TopicPartition("__state", number), leader_id=leader_id)


async def test_partition_that_another_broker_leads_is_unloaded_and_loaded_when_it_returns(
    broker: Broker,
) -> None:
    log, reader = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    await change_leadership(broker, 0, leads=False)
    assert reader.forgotten == [0]
    with pytest.raises(NotCoordinator, match="another broker leads __state-0"):
        log.append(0, [record(1)])
    log.append(1, [record(2)])
    await change_leadership(broker, 0, leads=True)
    with pytest.raises(CoordinatorLoadInProgress):
        log.check_active(0)
    await read_to_its_end(log)
    assert [(partition, batch.records) for partition, batch in reader.replayed] == [(0, [record(0)])]
    assert reader.is_loaded == [0, 1, 2, 0]
    log.append(0, [record(1)])


async def test_leadership_that_a_partition_has_already_is_no_reason_to_load_it(broker: Broker) -> None:
    log, reader = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    await change_leadership(broker, 0, leads=True)
    log.check_active(0)
    assert (reader.forgotten, reader.replayed) == ([], [])


async def test_loading_stops_when_another_broker_leads_and_others_are_loaded(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    log.append(1, [record(1)])
    later, reader = new_log(broker)
    reader.steps = 100_000  # more than the change takes on a busy machine
    while not reader.steps_done:
        await trio.lowlevel.checkpoint()
    await change_leadership(broker, 0, leads=False)
    assert reader.steps_done < reader.steps
    reader.steps = 0
    await read_to_its_end(later)
    assert 0 not in reader.is_loaded
    with pytest.raises(NotCoordinator):
        later.check_active(0)
    later.check_active(1)


async def test_partition_whose_leadership_comes_and_goes_while_it_is_loaded_is_loaded_once_to_its_end(
    broker: Broker,
) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    later, reader = new_log(broker)
    reader.steps = 100_000  # more than the changes take on a busy machine
    for _ in range(5):
        await change_leadership(broker, 0, leads=False)
        await change_leadership(broker, 0, leads=True)
        await trio.lowlevel.checkpoint()
    await change_leadership(broker, 0, leads=False)
    reader.steps = 0
    await change_leadership(broker, 0, leads=True)
    await read_to_its_end(later)
    assert reader.is_loaded.count(0) == 1
    # What was read before it was forgotten was forgotten.
    assert reader.replayed[-1] == (0, reader.replayed[-1][1])
    later.check_active(0)


async def test_open_loads_no_partition_that_another_broker_leads(broker: Broker) -> None:
    log, _ = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    await change_leadership(broker, 0, leads=False)
    later, reader = new_log(broker)
    await read_to_its_end(later)
    assert (reader.is_loaded, reader.replayed) == ([1, 2], [])
    with pytest.raises(NotCoordinator):
        later.check_active(0)


async def test_partitions_are_loaded_after_one_failed_in_a_way_that_nobody_expected(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, reader = new_log(broker)
    await log.ensure()
    log.append(0, [record(0)])
    log.append(1, [record(1)])
    replay = reader.replay

    def fail(partition: int, batch: LoadedBatch) -> Generator[None, None, None]:
        if partition == 0:
            raise RuntimeError("a defect")
        return replay(partition, batch)

    monkeypatch.setattr(reader, "replay", fail)
    for number in (0, 1):
        await change_leadership(broker, number, leads=False)
    await change_leadership(broker, 0, leads=True)
    await trio.testing.wait_all_tasks_blocked(0.05)
    await change_leadership(broker, 1, leads=True)
    with trio.fail_after(DEADLINE_S):
        while 1 not in reader.is_loaded[3:]:
            await trio.lowlevel.checkpoint()
    log.check_active(1)
