"""Apache Kafka's own encoding of messages and records, by way of a small program on its generated classes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.deadlines import DEADLINE_S

from .java import QUICK_JVM_OPTIONS
from .java_classes import compiled
from .kafka import find_kafka

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE = Path(__file__).parent / "programs" / "KafkaMessages.java"


def ask_kafka_messages(requests: Sequence[Sequence[Any]]) -> list[str]:
    """One answer for each request; `KafkaMessages.java` describes both. An answer may begin with `error: `.

    Raises PeerUnavailableError without Java or the jars, AssertionError with the stack trace when it fails.
    """
    kafka = find_kafka()
    # The jars come first: an archive serves only what they are the beginning of.
    classes = f"{kafka.jars}/*:{compiled([_SOURCE], kafka.jars)}"
    options = ("-Xmx512M", *QUICK_JVM_OPTIONS, *kafka.archive.options())
    ended = subprocess.run(
        [kafka.java, *options, "-cp", classes, _SOURCE.stem],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    answers = ended.stdout.splitlines()
    assert len(answers) == len(requests), ended.stderr
    return answers
