"""What a flush promises holds also for the copy that takes a log's place while it flushes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.testing.storage.harness import append_many
from tidelog.plugins.storage_file.log.durability import Durability
from tidelog.plugins.storage_file.log.future_replica import FutureReplica
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

Stores = tuple[FilePartitionStore, FilePartitionStore]


@pytest.fixture
async def stores(harness: LogDirectoryHarness) -> Stores:
    """A log, and another one that can be its copy."""
    log, copy = await harness.storage.open_partitions([harness.spec("log"), harness.spec("copy")])
    assert isinstance(log, FilePartitionStore)
    assert isinstance(copy, FilePartitionStore)
    return log, copy


def hand_over(log: FilePartitionStore, copy: FilePartitionStore) -> str:
    """Let the copy take the log's place, under a new name."""
    directory = str(Path(copy.directory).with_name("moved-0"))
    assert log.swap_in(copy, directory, copy.log.services)
    return directory


def inode_of(path: str) -> int:
    return Path(path).stat().st_ino


def once_when_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch, durability: Durability, action: Callable[[], object]
) -> None:
    """Do something after a flush was begun, and before it looks at what there is to flush."""
    check, actions = Durability.check, [action]

    def act_and_check(self: Durability) -> None:
        if self is durability and actions:
            actions.pop()()
        check(self)

    monkeypatch.setattr(Durability, "check", act_and_check)


async def test_flush_includes_a_future_replica_that_begins_to_follow_during_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, copy = stores

    def begin() -> None:
        log.follow_with(FutureReplica(copy, "moved-0"))
        append_many(log, 3)

    once_when_its_turn_comes(monkeypatch, log.log.durability, begin)
    assert log.flush() == 3
    assert copy.durable_offset == 3


async def test_swap_in_during_a_flush_repeats_it(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    log, copy = stores

    def begin_and_end() -> None:
        log.follow_with(FutureReplica(copy, "moved-0"))
        append_many(log, 3)
        hand_over(log, copy)

    once_when_its_turn_comes(monkeypatch, log.log.durability, begin_and_end)
    assert log.flush() == 3
    assert log.log is copy.log
    assert log.durable_offset == 3


async def test_swap_in_before_the_names_are_durable_syncs_the_renamed_directory(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, copy = stores
    copy.flush()
    log.follow_with(FutureReplica(copy, "moved-0"))
    append_many(log, 3)
    copy.log.durability.files_created()
    old, new = copy.directory, ""
    synced: list[int] = []

    def sync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)

    def open_file(path: str | Path, flags: int) -> int:
        nonlocal new
        if path == old and not new:
            new = hand_over(log, copy)
        return os.open(path, flags)

    monkeypatch.setattr(disk, "fsync", sync)
    monkeypatch.setattr(disk, "open_file", open_file)
    assert log.flush() == 3
    assert inode_of(new) in synced
