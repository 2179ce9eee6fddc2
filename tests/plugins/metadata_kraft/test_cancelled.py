"""A change of metadata that is cancelled was made as a whole, or not at all."""

from __future__ import annotations

import pytest
import trio

from tests.metadata_changes import allocate_producer_ids, put_topics, topics_of
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.metadata import topic_image
from tidelog.plugins.metadata_kraft.log import MetadataLog
from tidelog.plugins.metadata_kraft.store import KraftMetadata


def cancelling(monkeypatch: pytest.MonkeyPatch) -> trio.CancelScope:
    """A scope that is cancelled as soon as anything was appended to a metadata log."""
    scope, append = trio.CancelScope(), MetadataLog.append

    async def then_cancel(log: MetadataLog, values: list[bytes]) -> int:
        size = await append(log, values)
        scope.cancel()
        return size

    monkeypatch.setattr(MetadataLog, "append", then_cancel)
    return scope


async def test_ids_whose_allocation_is_cancelled_are_not_allocated_again(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = harness.metadata
    with cancelling(monkeypatch) as scope:
        await allocate_producer_ids(metadata, 1000)
    assert scope.cancel_called
    again = await allocate_producer_ids(metadata, 1000)
    assert again == range(1000, 2000)
    await harness.reopen()
    assert await allocate_producer_ids(harness.metadata, 1) == range(2000, 2001)


async def test_a_topic_whose_creation_is_cancelled_is_known_now_and_after_a_restart(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = topic_image("t", harness.spec("t").topic_id, 3)
    with cancelling(monkeypatch) as scope:
        await put_topics(harness.metadata, record)
    assert scope.cancel_called
    metadata = harness.metadata
    assert isinstance(metadata, KraftMetadata)
    assert [topic.name for topic in topics_of(metadata)] == ["t"]
    await harness.reopen()
    assert [topic.name for topic in topics_of(harness.metadata)] == ["t"]
