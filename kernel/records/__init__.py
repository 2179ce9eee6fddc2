"""Record batches, the currency of the broker: headers, records, compression."""

from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    BatchHeader,
    parse_header,
    stamp_append_time,
    stamp_offset,
    verify_crc,
)

__all__ = [
    "HEADER_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC_V2",
    "BatchHeader",
    "parse_header",
    "stamp_append_time",
    "stamp_offset",
    "verify_crc",
]
