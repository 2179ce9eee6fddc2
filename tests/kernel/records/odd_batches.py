"""Batches with anything in their records that a client may send: as they should be, odd, and spoiled."""

from __future__ import annotations

import random
from typing import NamedTuple

import crc32c

from tidelog.kernel.log.validation import PartitionConfig
from tidelog.kernel.records.batch import pack_batch, parse_header
from tidelog.kernel.records.compression import compress
from tidelog.kernel.testing import make_batch

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_LIMIT = 2**63 - 1
CODECS = range(5)
_LENGTH = slice(8, 12)
_BEHIND_LENGTH = 12
_MAGIC_AT = 16
_CRC = slice(17, 21)
_BEHIND_CRC = 21


class Sample(NamedTuple):
    """A batch and the topic that it is sent to."""

    batch: bytes
    config: PartitionConfig

    def line(self) -> str:
        config = self.config
        limits = f"{config.message_timestamp_before_max_ms} {config.message_timestamp_after_max_ms}"
        topic = f"{int(config.is_compacted)} {config.message_timestamp_type} {limits}"
        return f"{topic} {NOW} {self.batch.hex()}\n"


def varint(number: int, extra: int = 0) -> bytes:
    """Zigzag varint with so many bytes more than it needs."""
    folded = (number << 1) ^ (number >> 63)
    out = bytearray()
    while folded > 0x7F or extra:
        extra -= folded <= 0x7F
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    return bytes(out) + bytes([folded])


def field(dice: random.Random, content: bytes | None) -> bytes:
    """A field with its length, sometimes in a form that nobody needs."""
    length = -dice.choice([1, 1, 1, 2, 70]) if content is None else len(content)
    return varint(length, dice.choice([0] * 20 + [1, 2])) + (content or b"")


def body(dice: random.Random, index: int) -> bytes:
    """A record without its length, mostly as it should be."""
    delta = dice.choice(
        [0] * 6 + [index, -3, 100, 9000, HOUR_MS, HOUR_MS + 1, -DAY_MS, -DAY_MS - 1, -NOW - 1, 2**63 - 1]
    )
    offset = dice.choice([index] * 40 + [0, index + 1])
    key = dice.choice([None, b"", b"key", b"k" * 80])
    value = dice.choice([None, b"", b"value", b"v" * 90, b"w" * 9000])
    headers = dice.choice([0] * 5 + [1, 2, 9, 70])
    out = (
        b"\0" + varint(delta, dice.choice([0] * 20 + [2])) + varint(offset, dice.choice([0] * 20 + [1, 4, 5]))
    )
    out += field(dice, key) + field(dice, value) + varint(headers)
    for _ in range(headers):
        out += field(dice, b"h" * dice.choice([0, 1, 65])) + field(
            dice, dice.choice([None, b"", b"x", b"y" * 64])
        )
    return out


def spoiled(dice: random.Random, data: bytes) -> bytes:
    """The bytes with something wrong in them, mostly one thing."""
    out = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        _spoil(dice, out)
    return bytes(out)


def _spoil(dice: random.Random, out: bytearray) -> None:
    at, size = dice.randrange(len(out) + 1), dice.choice([1, 1, 2, 5, 40])
    match dice.randrange(8):
        case 0:
            out[at : at + 1] = bytes([dice.randrange(256)])
        case 1:
            out[at:at] = b"\x80" * dice.choice([1, 4, 9])
        case 2:
            del out[at:]
        case 3:
            del out[at : at + size]
        case 4:
            out[at:at] = out[at : at + size]
        case 5 if at < len(out):
            out[at] = (out[at] + dice.choice([-2, -1, 1, 2])) % 256  # a length that is off by one, a sign
        case 6 if at < len(out):
            out[at] ^= 1 << dice.randrange(8)
        case _:
            out += dice.choice([b"\0", b"\x0c\0\0\0\x01\x01\0"])


def records_of(dice: random.Random) -> tuple[bytes, int]:
    """Records, and how many there should be of them."""
    count = dice.choice([1, 2, 3, 8])
    records = b"".join(varint(len(one)) + one for one in (body(dice, index) for index in range(count)))
    if dice.random() < 0.4:
        records = spoiled(dice, records)
    return records, max(1, count + dice.choice([0] * 20 + [-1, 1]))


def sample(dice: random.Random) -> Sample:
    """A batch with anything in it that a client may send."""
    records, count = records_of(dice)
    codec = dice.choice(CODECS)
    config = PartitionConfig(
        is_compacted=dice.random() < 0.3,
        message_timestamp_type=dice.choice(["CreateTime"] * 4 + ["LogAppendTime"]),
        message_timestamp_before_max_ms=dice.choice([NO_LIMIT, NO_LIMIT, DAY_MS]),
        message_timestamp_after_max_ms=dice.choice([HOUR_MS, HOUR_MS, 1000 * DAY_MS]),
    )
    base = dice.choice([NOW] * 8 + [-1, 0, NOW - 2 * DAY_MS, NOW + 2 * HOUR_MS])
    header = parse_header(make_batch([b"v"] * count))._replace(
        attributes=codec, base_timestamp=base, max_timestamp=dice.choice([base, NOW, base + 1, -1])
    )
    packed = compress(codec, records)
    if codec and dice.random() < 0.1:
        packed = spoiled(dice, packed)
    return Sample(bytes(pack_batch(header, packed)), config)


def mended(data: bytes) -> bytearray:
    """Return the input with the length and the CRC that a producer would have set."""
    batch = bytearray(data)
    batch[:8] = bytes(8)
    batch[_LENGTH] = (len(batch) - _BEHIND_LENGTH).to_bytes(4)
    batch[_MAGIC_AT] = 2
    batch[_CRC] = crc32c.crc32c(batch[_BEHIND_CRC:]).to_bytes(4)
    return batch
