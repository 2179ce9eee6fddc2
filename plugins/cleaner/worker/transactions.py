"""Transactions while a log is read from one end to the other: what of them may go.

Source: seed 001, "Interaction with transactions / markers"; Apache Kafka's `CleanedTransactionMetadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tidelog.kernel.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, Buffer
from tidelog.kernel.records.columns import Mask
from tidelog.kernel.records.control import decode_marker
from tidelog.kernel.seams.storage import AbortedTransaction
from tidelog.plugins.cleaner.worker.segments import Chunk


class TakenBatches(NamedTuple):
    """What transactions make of some batches.

    `of_applications`: which have records of applications whose transaction was not aborted. `markers` are
    the indexes of control batches, with whether they end nothing any more.
    """

    of_applications: Mask
    markers: Mapping[int, bool]


class SeenTransactions:
    """The transactions whose batches were read and whose markers were not yet.

    `left` are the aborted ones of which batches were still there, in the order of their markers.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        """`aborted` are all aborted transactions of the log."""
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        self.left: list[AbortedTransaction] = []

    def take(self, chunk: Chunk) -> TakenBatches:
        """Take the next batches of the log.

        Raises:
            CorruptBatch: a control batch is none.
        """
        batches = chunk.batches
        of_applications: Mask = batches.record_count > 0
        markers: dict[int, bool] = {}
        for index in np.flatnonzero(batches.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)).tolist():
            header = batches.header(index)
            if header.is_control:
                markers[index] = self.is_spent(chunk.content_of(index), header)
                of_applications[index] = False
            elif self.is_aborted(header):
                of_applications[index] = False
        return TakenBatches(of_applications, markers)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take a batch of records; return whether its transaction was aborted."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._seen_aborted.add(producer_id)
            return True
        self._seen_committed.add(producer_id)
        return False

    def is_spent(self, batch: Buffer, header: BatchHeader) -> bool:
        """Take a control batch; return whether it is a marker that ends nothing any more.

        Raises:
            CorruptBatch: it is no control batch.
        """
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        marker = decode_marker(batch, header)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.commit:
            spent = producer_id not in self._seen_committed
            self._seen_committed.discard(producer_id)
            return spent
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._seen_aborted:
            return True
        self._seen_aborted.discard(producer_id)
        self.left.append(aborted)
        return False

    def take_left(self) -> list[AbortedTransaction]:
        """Return the aborted transactions that are left since the last call."""
        left, self.left = self.left, []
        return left

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            aborted = self._coming.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
