"""A storage that stores records in another form keeps the contract, and has that form on its disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import BatchHeader, iter_batches
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.storage import (
    RecordsTransform,
    Storage,
    StorageContext,
    TopicPartition,
    TransformingStorage,
    WouldBlock,
    region_bytes,
)
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage import StorageConformance, StorageHarness
from tidelog.kernel.testing.storage.harness import append


@attrs.frozen
class Masked:
    """Each byte is masked by what the header and the partition say; what is masked twice is as before."""

    partition: TopicPartition

    def encode(self, header: BatchHeader, records: memoryview) -> bytes:
        assert header.crc == 0
        mask = (header.base_offset + header.record_count + self.partition.partition) % 255 + 1
        return bytes(byte ^ mask for byte in records)

    decode = encode


class Shorter(Masked):
    def encode(self, header: BatchHeader, records: memoryview) -> bytes:
        return bytes(records[1:])


def transforming(wrapped: str, transform_of: Callable[[TopicPartition], RecordsTransform]) -> ModuleType:
    class Backend:
        name = "transforming"
        durable = wrapped == "file"

        def create(self, context: StorageContext) -> Storage:
            return TransformingStorage(context.backend(wrapped).create(context), transform_of)

    def backends() -> Iterable[Backend]:
        return [Backend()]

    plugin: Any = ModuleType("transforming")
    plugin.tidelog_storage_backends = backends
    return plugin  # type: ignore[no-any-return]


class TestTransformingMemory(StorageConformance, plugin=transforming("memory", Masked)):
    """The same suite as that of any storage."""


@pytest.mark.long
class TestTransformingFiles(StorageConformance, plugin=transforming("file", Masked)): ...


@pytest.fixture
async def tasks() -> Any:
    tasks = BackgroundTasks()
    async with tasks.running():
        yield tasks


async def test_what_is_stored_is_in_the_other_form_and_has_a_crc_of_its_own(
    tasks: BackgroundTasks, tmp_path: Path
) -> None:
    harness = StorageHarness(transforming("file", Masked), tmp_path, tasks)
    await harness.open()
    store = await harness.open_store()
    batch = make_batch([b"a plain value"], keys=[b"a plain key"])
    store.append_batch(batch, 0, 0, START_MS)
    store.flush()
    (file,) = (tmp_path / "data").rglob("topic-0/*.log")
    stored = file.read_bytes()[: len(batch)]
    assert b"plain" not in stored
    # Recovery, which knows nothing of the transform, takes it for intact.
    ((header, _),) = iter_batches(memoryview(stored))
    assert header.record_count == 1
    (region,) = store.read_batches(0, 1, 1, wait=True).regions
    content = region_bytes(region)
    ((header, _),) = iter_batches(memoryview(content))
    assert [record.value for record in iter_records(content, header)] == [b"a plain value"]
    await harness.close()


async def test_much_is_transformed_in_a_thread(tasks: BackgroundTasks, tmp_path: Path) -> None:
    harness = StorageHarness(transforming("memory", Masked), tmp_path, tasks)
    await harness.open()
    store = await harness.open_store()
    for _ in range(3):
        append(store, 100_000)
    assert store.read_batches(0, 200_000, 3).size == 200_000
    with pytest.raises(WouldBlock):
        store.read_batches(0, 1_000_000, 3)
    assert store.read_batches(0, 1_000_000, 3, wait=True).size == store.size_bytes
    await harness.close()


async def test_a_transform_that_changes_the_size_is_refused(tasks: BackgroundTasks, tmp_path: Path) -> None:
    harness = StorageHarness(transforming("memory", Shorter), tmp_path, tasks)
    await harness.open()
    store = await harness.open_store()
    with pytest.raises(CorruptBatch, match="have 10 bytes, and 9 after they are transformed"):
        store.append_batch(make_batch([b"abc"]), 0, 0, START_MS)
    assert store.log_end_offset == 0
    await harness.close()
