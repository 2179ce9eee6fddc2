"""The headers of many records at once, as columns.

Few readers of blocks need them, so `RecordBlock` leaves them encoded.
Source: Kafka documentation, "Record Header".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from librt.strings import BytesWriter

from tidelog.kernel.records.scanner import HEADER_FIELDS, note_headers

if TYPE_CHECKING:
    from tidelog.kernel.records.block import RecordBlock
    from tidelog.kernel.records.columns import Column


class HeaderColumns(NamedTuple):
    """The headers of the records of a block, those of the first record first.

    `counts[i]` is the number of headers of record i. For each header: the positions of its key and value in
    the block's data, and their sizes in bytes, -1 for a value that is null.
    """

    counts: Column
    key_start: Column
    key_size: Column
    value_start: Column
    value_size: Column


def header_columns(block: RecordBlock) -> HeaderColumns:
    """Return the columns of the headers of all records of a block."""
    fields = BytesWriter()
    filled = np.flatnonzero(block.header_count)
    starts, counts = block.header_start[filled].tolist(), block.header_count[filled].tolist()
    for start, count in zip(starts, counts, strict=True):
        note_headers(block.data, start, count, fields)
    noted = np.frombuffer(fields.getvalue(), "<i8").reshape(-1, HEADER_FIELDS)
    return HeaderColumns(block.header_count, *np.ascontiguousarray(noted.T))
