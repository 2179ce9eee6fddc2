"""Apache Kafka's own classes and ours take and refuse the same records, for the same reasons."""

from __future__ import annotations

import os
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
from tidelog.kernel.log.validation import validate_batch, validate_in_steps
from tidelog.kernel.pace import run_to_end

from .odd_batches import NOW, Sample, sample

SEED = 467
SAMPLES = int(os.environ.get("BATCH_SAMPLES", "3000"))
SOURCE = Path(__file__).parent / "java" / "ValidateBatches.java"


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
    if "unknown header flags" in str(found):
        return None  # of gzip, see docs/compression.md
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
