"""Recompression of a batch with another codec, piece by piece: only the result is held as a whole."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import MessageTooLarge
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, Buffer, pack_batch
from tidelog.kernel.records.compression import codec_of, in_pieces, unpack
from tidelog.kernel.records.record import MAX_RECORDS_BYTES


def recompress_in_steps(
    batch: Buffer, header: BatchHeader, codec_id: int, level: int | None, max_bytes: int
) -> Generator[None, None, bytearray]:
    """Return the batch with its records compressed by another codec, 0 for none; all else stays.

    Raises:
        MessageTooLarge: the result has more than `max_bytes`.
        CorruptBatch: the records are not of the codec in the header.
        UnsupportedCompression: no plugin offers one of the codecs.
    """
    area = memoryview(batch)[HEADER_BYTES : header.size]
    pieces = unpack(header.codec, area, MAX_RECORDS_BYTES) if header.codec else in_pieces(area)
    packed = bytearray()
    for piece in codec_of(codec_id).pack(pieces, level) if codec_id else pieces:
        packed += piece
        if HEADER_BYTES + len(packed) > max_bytes:
            raise MessageTooLarge(
                f"the batch exceeds max.message.bytes={max_bytes} when it is recompressed as "
                "compression.type asks for; send smaller batches or raise the topic's max.message.bytes"
            )
        yield
    return pack_batch(header._replace(attributes=header.attributes & ~CODEC_MASK | codec_id), packed)
