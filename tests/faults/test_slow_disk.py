"""A device that takes its time: who asked for durability waits, nobody else does."""

from __future__ import annotations

import threading
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.crash.core import Core
from tidelog.kernel.partition import Isolation
from tidelog.kernel.testing import make_batch
from tidelog.plugins.storage_file import disk

LONGEST_WAIT_S = 10.0


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
                assert self.may_go_on.wait(LONGEST_WAIT_S)
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
        result = safe.append(make_batch([b"x"]))
        await safe.wait_flushed(result.last_offset)
        acknowledged.append(result.last_offset)

    async with trio.open_nursery() as clients:
        for _ in range(5):
            clients.start_soon(produce)
        await wait_all_tasks_blocked()
        await trio.to_thread.run_sync(flushes.reached.wait, LONGEST_WAIT_S)
        assert acknowledged == []
        assert safe.readable_end(Isolation.READ_UNCOMMITTED) == 0
        assert lazy.append(make_batch([b"y"])).base_offset == 0
        assert lazy.read(0, 1000, Isolation.READ_UNCOMMITTED).size > 0
        assert safe.append(make_batch([b"z"])).base_offset == 5
        flushes.may_go_on.set()
    assert sorted(acknowledged) == [0, 1, 2, 3, 4]
    await core.close()
