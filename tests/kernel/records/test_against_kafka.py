"""Apache Kafka's own classes and ours take and refuse the same records, for the same reasons."""

from __future__ import annotations

import random
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import PeerUnavailableError, find_kafka
from tidelog.kernel.errors import BrokerError, InvalidRecord, InvalidTimestamp
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.partition.validation import PartitionConfig, validate_batch, validate_in_steps
from tidelog.kernel.records.batch import pack_batch, parse_header
from tidelog.kernel.records.compression import compress
from tidelog.kernel.testing import make_batch

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_LIMIT = 2**63 - 1
SEED = 467
SAMPLES = 3000
SOURCE = Path(__file__).parent / "java" / "ValidateBatches.java"


class Sample(NamedTuple):
    """A batch and the topic that it is sent to."""

    batch: bytes
    config: PartitionConfig

    def line(self) -> str:
        config = self.config
        limits = f"{config.message_timestamp_before_max_ms} {config.message_timestamp_after_max_ms}"
        topic = f"{int(config.is_compacted)} {config.message_timestamp_type} {limits}"
        return f"{topic} {NOW} {self.batch.hex()}\n"


class Kafkas(NamedTuple):
    """What Kafka says: its validator's verdict, stored timestamp, records at fault, its reader's verdict."""

    verdict: str
    max_timestamp: str
    timestamp_type: str
    record_errors: str
    read: str

    @property
    def indexes(self) -> list[int]:
        return [int(error.split("=")[0]) for error in self.record_errors.split(";") if error]


@cache
def validator() -> list[str]:
    """The command line of Kafka's side.

    Raises PeerUnavailableError without Kafka or a JDK.
    """
    kafka = find_kafka()
    javac = shutil.which("javac")
    if javac is None:
        raise PeerUnavailableError("Apache Kafka's classes", "no `javac` is on the PATH; install a JDK")
    classes = mkdtemp(prefix="tidelog-java-")
    subprocess.run(
        [javac, "-nowarn", "-cp", f"{kafka.jars}/*", "-d", classes, str(SOURCE)],
        check=True,
        timeout=DEADLINE_S,
    )
    return [
        kafka.java,
        "-Xmx256M",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{classes}:{kafka.jars}/*",
        SOURCE.stem,
    ]


def kafkas(samples: list[Sample]) -> list[Kafkas]:
    """What Kafka says of each."""
    try:
        command = validator()
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    lines = "".join(sample.line() for sample in samples)
    ended = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    return [Kafkas(*line.split("\t")) for line in ended.stdout.splitlines()]


def ours(sample: Sample) -> int | BrokerError:
    """The largest timestamp of the batch's records, or why it is refused."""
    try:
        header = validate_batch(sample.batch, sample.config)
        return run_to_end(validate_in_steps(sample.batch, header, sample.config, NOW))
    except BrokerError as error:
        return error


def disagreement(sample: Sample, said: Kafkas) -> str | None:
    """What is different, except for what is refused here on purpose."""
    found = ours(sample)
    if isinstance(found, InvalidRecord) and "offset delta" in str(found):
        # Kafka stumbles over packing such a batch again; one that is not packed it takes as it is.
        return None
    if said.verdict != "ok" or said.read != "ok":
        if said.read != "ok" and isinstance(found, InvalidRecord) and not found.record_errors:
            # What no consumer can read is refused as a whole: Kafka's validator does not look that closely.
            return None
        kind = InvalidTimestamp if said.verdict.startswith("InvalidTimestamp") else InvalidRecord
        if not isinstance(found, kind):
            return f"Kafka refuses it, here it is {found!r}"
        if [e.batch_index for e in found.record_errors] != said.indexes:
            return f"other records are named: {found.record_errors}"
        return None
    if isinstance(found, BrokerError):
        return f"Kafka takes it, here it is {found!r}"
    if said.timestamp_type == "CreateTime" and found != int(said.max_timestamp):
        return f"the max timestamp is {found}"
    return None


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
    """The bytes with something wrong in them."""
    out, at = bytearray(data), dice.randrange(len(data))
    match dice.randrange(4):
        case 0:
            out[at] = dice.randrange(256)
        case 1:
            out[at:at] = b"\x80" * dice.choice([1, 4, 9])
        case 2:
            del out[at:]
        case _:
            out += dice.choice([b"\0", b"\x0c\0\0\0\x01\x01\0"])
    return bytes(out)


def sample(dice: random.Random) -> Sample:
    """A batch with anything in it that a client may send."""
    count = dice.choice([1, 2, 3, 8])
    records = b"".join(varint(len(one)) + one for one in (body(dice, index) for index in range(count)))
    if dice.random() < 0.3:
        records = spoiled(dice, records)
    codec = dice.choice([0, 0, 1, 3, 4])
    config = PartitionConfig(
        is_compacted=codec == 0 or dice.random() < 0.3,
        message_timestamp_type=dice.choice(["CreateTime"] * 4 + ["LogAppendTime"]),
        message_timestamp_before_max_ms=dice.choice([NO_LIMIT, NO_LIMIT, DAY_MS]),
        message_timestamp_after_max_ms=dice.choice([HOUR_MS, HOUR_MS, 1000 * DAY_MS]),
    )
    base = dice.choice([NOW] * 8 + [-1, 0, NOW - 2 * DAY_MS, NOW + 2 * HOUR_MS])
    header = parse_header(make_batch([b"v"] * count))._replace(
        attributes=codec, base_timestamp=base, max_timestamp=dice.choice([base, NOW, base + 1, -1])
    )
    return Sample(bytes(pack_batch(header, compress(codec, records))), config)


@pytest.mark.long
def test_what_apache_kafka_takes_and_refuses() -> None:
    dice = random.Random(SEED)
    samples = [sample(dice) for _ in range(SAMPLES)]
    said = kafkas(samples)
    assert len(said) == SAMPLES
    different = [
        f"{reason}: {answer} of {each.line()}"
        for each, answer in zip(samples, said, strict=True)
        if (reason := disagreement(each, answer)) is not None
    ]
    assert different == []
    verdicts = [answer.verdict.split(":")[0] for answer in said]
    for verdict in (
        "ok",
        "InvalidRecordException",
        "InvalidTimestampException",
        "UnsupportedOperationException",
    ):
        assert verdicts.count(verdict) > SAMPLES / 100, f"too few samples are {verdict}"
