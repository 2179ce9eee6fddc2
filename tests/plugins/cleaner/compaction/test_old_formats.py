"""Apache Kafka 3.9.1 and tidelog compact the same log of formats 0 and 1 to the same messages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.deadlines import wait_until
from tests.kernel.records.message_sets import GZIP, LZ4, SNAPPY, Row, plain_set, wrapper
from tests.peers import OLD_PROTOCOLS_KAFKA, KafkaServer, TidelogServer, find_kafka
from tests.plugins.cleaner.segment_files import compacted_until
from tests.plugins.metadata_kraft.hands import Client
from tidelog.kernel.records.batch import MAGIC_V2, TIMESTAMP_TYPE_BIT, BatchHeader, parse_message
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.message_set import wrapped_value
from tidelog.kernel.records.stored import iter_stored, iter_stored_contents, verify_stored_crc
from tidelog.kernel.testing import make_batch
from tidelog.plugins.storage_file.directories.checkpoints import rewrite_checkpoint

TOPIC = "old"
NOW = 1_700_000_000_000
DAY_S = 86_400
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "86400000"}
AT_ONCE = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "100", "log.retention.ms": "-1"}
CLEAN_UNTIL, END = 60, 100


def rows(text: str, time: int = NOW) -> list[Row]:
    """`key=value`, `key` (a tombstone) and `=value` (without a key), a millisecond apart."""
    pairs = [word.partition("=") for word in text.split()]
    return [
        (time + index, key.encode() or None, value.encode() * 20 if sign else None)
        for index, (key, sign, value) in enumerate(pairs)
    ]


def packed(text: str, magic: int, codec: int, first: int, *, attributes: int = 0) -> bytes:
    """A compressed message from that offset on."""
    held = rows(text, NOW + first)
    inner = plain_set(held, magic, 0 if magic else first, attributes=attributes)
    last = first + len(held) - 1
    return wrapper(inner, magic, codec, last, NOW + last + bool(attributes), attributes=attributes)


SEGMENTS: dict[int, list[bytes]] = {
    # Tombstones of this one are old enough to go; the format 2 has its own rule.
    0: [
        plain_set(rows("a=1 b=1 gone =keyless"), 0, 0),
        packed("c=1 d=1 gone-too e=1", 0, GZIP, 4),
        packed("f=1 g=1 gone-as-well h=1", 1, SNAPPY, 8),
        bytes(make_batch([None, b"1"], 12, keys=[b"marked", b"i"], timestamps=[NOW, NOW])),
        plain_set(rows("j=1 k=1"), 1, 14),
    ],
    30: [
        packed("stays l=1 m=1", 1, LZ4, 30),
        packed("n=1 o=1 p=1", 0, SNAPPY, 33),
        packed("q=1 r=1 s=1", 1, GZIP, 36, attributes=TIMESTAMP_TYPE_BIT),
        plain_set(rows("stays-too t=1"), 0, 39),
    ],
    CLEAN_UNTIL: [
        packed("a=2 m=2 n=2 q=2 new", 1, GZIP, 60),
        packed("c=2 e=2 p=2 a=3", 0, LZ4, 65),
        plain_set(rows("b=2 j=2 f=2"), 1, 69),
        packed("x=1 x=2 x=3", 1, GZIP, 72),
        packed("x=4 x=5 y=1", 0, SNAPPY, 75),
    ],
    END: [plain_set(rows("active=1"), 1, END)],
}


def prepare(data: Path) -> None:
    """Replace the log by `SEGMENTS`, of which the first ones were compacted before."""
    (data / ".kafka_cleanshutdown").unlink()
    (data / rewrite_checkpoint("compact")).write_text(f"0\n1\n{TOPIC} 0 {CLEAN_UNTIL}\n")
    folder = data / f"{TOPIC}-0"
    for path in folder.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()
    for age_days, base in zip((0, 1, 5, 9), reversed(SEGMENTS), strict=True):
        path = folder / f"{base:020}.log"
        path.write_bytes(b"".join(SEGMENTS[base]))
        changed = NOW // 1000 - age_days * DAY_S
        os.utime(path, (changed, changed))


def compacted(server: KafkaServer | TidelogServer, data: Path) -> list[Any]:
    """What is left in the files of the topic when a broker has compacted it."""
    server.start()
    try:
        Client(server.bootstrap).create(TOPIC, 1, CONFIG)
        server.stop()
        prepare(data)
        server.start()
        wait_until(lambda: compacted_until(data, TOPIC) == END, "the log is compacted")
    finally:
        server.stop()
    found: list[Any] = []
    for path in sorted((data / f"{TOPIC}-0").glob("*.log")):
        found += [(int(path.stem), *each) for each in described(path.read_bytes())]
    return found


def described(content: bytes) -> Iterator[Sequence[Any]]:
    """Each message and batch, as readers of its format find it, but for what depends on who compressed it."""
    for header, message in iter_stored(memoryview(content)):
        assert verify_stored_crc(message, header)
        records = [
            (each.offset, each.timestamp, each.key, each.value)
            for each in (iter_stored_contents(message, header, 1 << 20) if header.record_count else ())
        ]
        place = header.base_offset, header.last_offset, header.magic, header.attributes, header.max_timestamp
        yield *place, records, inner_heads(message, header)


def inner_heads(message: memoryview, header: BatchHeader) -> list[tuple[int, int, int]]:
    """Offset, format and attributes of the messages in a compressed one, as they are written."""
    heads: list[tuple[int, int, int]] = []
    if header.codec and header.magic < MAGIC_V2:
        value = wrapped_value(message, header.magic)
        inner = b"".join(unpack(header.codec, value, 1 << 20, magic=header.magic))
        for each, content in iter_stored(memoryview(inner)):
            assert verify_stored_crc(content, each)
            assert parse_message(content) == each
            heads.append((each.base_offset, each.magic, each.attributes))
    return heads


@pytest.mark.long
def test_the_same_messages_stay_in_their_formats(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "tidelog", tmp_path / "kafka"
    work = tmp_path / "tidelog-work", tmp_path / "kafka-work"
    tidelog = compacted(TidelogServer(work[0], {"node.id": "1", **AT_ONCE}, data_dir=ours), ours)
    kafka_server = KafkaServer(find_kafka(OLD_PROTOCOLS_KAFKA), work[1], AT_ONCE, data_dir=theirs)
    kafka = compacted(kafka_server, theirs)
    assert tidelog == kafka
    there = {row[2] for _, *fields in tidelog for row in fields[5]}
    assert {b"stays", b"stays-too", b"new", b"marked", b"a", b"active"} < there
    assert there.isdisjoint({b"gone", b"gone-too", b"gone-as-well", None})
    assert {fields[2] for _, *fields in tidelog} == {0, 1, 2}
