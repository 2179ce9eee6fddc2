"""Encoding and compressing batches before they are sent, large ones in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.kernel.records import compression
from tidelog.plugins.client.batches import EncodedBatch, codec_of
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.producer.formats import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.engine import EngineIo
    from tidelog.plugins.client.producer.accumulator import PartitionQueue
    from tidelog.plugins.client.producer.batch_results import BatchResults
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.settings import ProducerSettings

COMPRESSED_IN_THREAD_BYTES: Final = 64 * 1024
"""Smaller batches are compressed at once: to hand them to a thread takes about as long."""
QUICKLY_COMPRESSED_IN_THREAD_BYTES: Final = 256 * 1024
"""The same with codecs that compress so much in a fraction of a millisecond."""


class BatchEncoder:
    """Encodes the first batches of queues; `encoded` is called after a thread has done it."""

    def __init__(
        self, io: EngineIo, settings: ProducerSettings, results: BatchResults, encoded: Callable[[], None]
    ) -> None:
        """Raise ValueError for an unknown compression."""
        self._io = io
        self._codec = codec_of(settings.compression_type)
        self._level = settings.compression_level
        codec = compression.codec_of(self._codec) if self._codec else None
        is_quick = codec is not None and codec.packs_quickly(self._level)
        self._in_thread_bytes = QUICKLY_COMPRESSED_IN_THREAD_BYTES if is_quick else COMPRESSED_IN_THREAD_BYTES
        self._results = results
        self._encoded = encoded

    def is_encoded(self, queue: PartitionQueue) -> bool:
        """Encode the first batch of a queue, unless it is; return False while a thread does it."""
        batch = queue.batches[0]
        if batch.encoded is not None:
            return True
        if batch is queue.open:
            queue.close_open()
        work = partial(encode, batch.records, self._codec, self._level)
        if self._codec and batch.size >= self._in_thread_bytes:
            queue.is_encoding = True
            self._io.run_in_thread(work, lambda outcome: self._encoded_in_thread(queue, batch, outcome))
            return False
        try:
            batch.encoded = work()
        except Exception as error:
            queue.batches.popleft()
            self._results.fail(batch, _unencodable(error))
            return False
        return True

    def _encoded_in_thread(
        self, queue: PartitionQueue, batch: Batch, outcome: EncodedBatch | Exception
    ) -> None:
        queue.is_encoding = False
        if batch.is_done:
            return
        if isinstance(outcome, Exception):
            queue.batches.remove(batch)
            self._results.fail(batch, _unencodable(outcome))
        else:
            batch.encoded = outcome
        self._encoded()


def _unencodable(error: Exception) -> ClientError:
    failure = ClientError(f"a batch cannot be encoded: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
