"""The storage seam: what a storage backend implements and what it is given.

Storage owns bytes: segments, rolling, indexes, flushing, recovery of torn tails, files beside the log. It
knows nothing of producers, watermarks or requests. The kernel owns the semantics above it
(`tidelog.kernel.log`) and is the same for every backend.

Threads: `PartitionStore.append_batch` and `read_batches` are called on the event loop and must not wait for a
device; a read that would block raises `WouldBlock` and is repeated with `wait=True` in a thread. `async`
methods may wait. All other synchronous methods are cheap unless their docstring begins with "Blocking"; those
are called in a thread.

From the whole to its parts: `backend` (a kind of storage and its context), `storage` (one that is opened),
`directories` (which others may use, and the topics that it knows), `partition_store` (the bytes of one
partition), `segments`, `regions` (bytes that a read returns).
`forwarding` has base classes for a storage that wraps another, `transforming` one that stores records in
another form, `batch_list_store` one for a store without segment files, and `key_value` a whole storage over
pairs of a key and a value.
"""

from tidelog.kernel.seams.storage.backend import StorageBackend, StorageContext
from tidelog.kernel.seams.storage.forwarding import ForwardingStorage, ForwardingStore
from tidelog.kernel.seams.storage.partition_store import PartitionStore
from tidelog.kernel.seams.storage.regions import (
    EMPTY_SLICE,
    FileRegion,
    LogSlice,
    OpenFile,
    Region,
    WouldBlock,
    region_bytes,
)
from tidelog.kernel.seams.storage.segments import (
    AbortedTransaction,
    DraftWriter,
    SegmentDraft,
    SegmentSource,
    SegmentView,
    StaleDraft,
    WrittenBatch,
)
from tidelog.kernel.seams.storage.storage import (
    LogDirectoryAdmin,
    LogDirectoryView,
    PartitionSpec,
    Storage,
    StoredPartition,
)
from tidelog.kernel.seams.storage.transforming import (
    RecordsTransform,
    TransformingStorage,
    TransformingStore,
)
from tidelog.kernel.topic_partition import TopicPartition

__all__ = [
    "EMPTY_SLICE",
    "AbortedTransaction",
    "DraftWriter",
    "FileRegion",
    "ForwardingStorage",
    "ForwardingStore",
    "LogDirectoryAdmin",
    "LogDirectoryView",
    "LogSlice",
    "OpenFile",
    "PartitionSpec",
    "PartitionStore",
    "RecordsTransform",
    "Region",
    "SegmentDraft",
    "SegmentSource",
    "SegmentView",
    "StaleDraft",
    "Storage",
    "StorageBackend",
    "StorageContext",
    "StoredPartition",
    "TopicPartition",
    "TransformingStorage",
    "TransformingStore",
    "WouldBlock",
    "WrittenBatch",
    "region_bytes",
]
