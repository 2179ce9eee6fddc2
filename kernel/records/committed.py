"""The batches of a log that readers of committed data get: no markers, nothing of aborted transactions.

Source: Kafka documentation, "Control Batches"; KIP-98, "Consumer".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from tidelog.kernel.records.batch import BatchHeader, Buffer
from tidelog.kernel.records.control import decode_marker

B = TypeVar("B", bound=Buffer)


def committed_batches(
    batches: Iterable[tuple[BatchHeader, B]], aborted: Iterable[tuple[int, int]] = ()
) -> Iterator[tuple[BatchHeader, B]]:
    """Yield the batches that are neither control batches nor part of an aborted transaction, whole.

    `batches` are consecutive ones below the last stable offset. `aborted` has (producer id, first offset) of
    each aborted transaction that overlaps them; a transaction ends at the abort marker of its producer.

    Raises:
        CorruptBatch: a control batch is malformed.
        UnsupportedCompression: the codec of a control batch is unknown.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for header, batch in batches:
        while waiting and waiting[-1][1] <= header.last_offset:
            aborting.add(waiting.pop()[0])
        if header.is_control:
            if header.producer_id in aborting and _is_abort(header, batch):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield header, batch


def _is_abort(header: BatchHeader, batch: Buffer) -> bool:
    marker = decode_marker(batch, header)
    return marker is not None and not marker.commit
