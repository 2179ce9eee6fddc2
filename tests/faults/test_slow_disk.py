"""A device that takes its time: who asked for durability waits, nobody else does."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.crash.core import Core
from tests.deadlines import DEADLINE_S
from tests.plugins.protocol_kafka.apis.client import framed
from tidelog.kernel import disk
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import AppendWaiter, Isolation, UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)


@attrs.define
class HangingFlushes:
    """Flushes of files in a directory of that name wait until they are let go on; others pass."""

    name: str
    may_go_on: threading.Event = attrs.field(factory=threading.Event)
    reached: threading.Event = attrs.field(factory=threading.Event)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Hang from now on."""
        perform = disk.sync_data

        def sync_data(fd: int) -> None:
            if f"/{self.name}/" in str(Path(f"/proc/self/fd/{fd}").readlink()):
                self.reached.set()
                assert self.may_go_on.wait(DEADLINE_S)
            perform(fd)

        patch.setattr(disk, "sync_data", sync_data)


async def test_a_flush_that_hangs_holds_up_its_own_acknowledgements_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core(tmp_path)
    await core.open()
    (safe,) = (await core.create("safe", 1, flush_messages="1")).partitions
    (lazy,) = (await core.create("lazy", 1)).partitions
    flushes = HangingFlushes("safe-0")
    flushes.install(monkeypatch)
    acknowledged: list[int] = []

    async def produce() -> None:
        result = safe.log.append_nowait(make_batch([b"x"]))
        await safe.log.wait_flushed(result.last_offset)
        acknowledged.append(result.last_offset)

    async with trio.open_nursery() as clients:
        for _ in range(5):
            clients.start_soon(produce)
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(flushes.reached.wait, DEADLINE_S)
        assert acknowledged == []
        assert safe.log.readable_end(Isolation.READ_UNCOMMITTED) == 0
        assert lazy.log.append_nowait(make_batch([b"y"])).base_offset == 0
        assert lazy.log.read(0, 1000, Isolation.READ_UNCOMMITTED).size > 0
        assert safe.log.append_nowait(make_batch([b"z"])).base_offset == 5
        flushes.may_go_on.set()
    assert sorted(acknowledged) == [0, 1, 2, 3, 4]
    await core.close()


def produce_without_answer(topic: str) -> bytes:
    """A request with acks 0 that carries one record."""
    data = PartitionProduceData(index=0, records=memoryview(make_batch([b"x"])))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return framed(PRODUCE, 9, ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics))


async def send_and_leave(broker: Broker, data: bytes) -> None:
    """Be a client that asks for no answer and closes its connection."""
    host, port = broker.listeners["PLAINTEXT"].split(":")
    client = await trio.open_tcp_stream(host, int(port))
    await client.send_all(data)
    await client.aclose()


async def reaches(partition: UnifiedLog, high_watermark: int) -> bool:
    """Whether readers see up to there before long, woken as a long poll is; not by the clock of the test."""
    while partition.high_watermark < high_watermark:
        grown = threading.Event()
        waiter = AppendWaiter(1, grown.set)
        partition.add_waiter(waiter)
        if not await trio.to_thread.run_sync(grown.wait, DEADLINE_S):
            return False
        partition.remove_waiter(waiter)
    return True


async def test_what_a_client_sent_that_left_is_flushed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    """The server notices that it has left while the disk is still busy with what came before."""
    settings = {"storage": "file", "log.dirs": str(tmp_path)}
    async with running_broker(settings) as broker:
        topic = await broker.topics.create(TopicSpec("safe", 1, config={"flush.messages": "1"}))
        (partition,) = topic.partitions
        flushes = HangingFlushes("safe-0")
        flushes.install(monkeypatch)
        await send_and_leave(broker, produce_without_answer("safe"))
        assert await trio.to_thread.run_sync(flushes.reached.wait, DEADLINE_S)
        await send_and_leave(broker, produce_without_answer("safe") * 3)
        # The sweep that looks for peers that left comes once a second.
        for _ in range(5):
            await wait_all_tasks_blocked(0.01)
            mock_clock.jump(1)
        flushes.may_go_on.set()
        assert await reaches(partition.log, 4)
        assert partition.log.commit.durable_offset == 4
