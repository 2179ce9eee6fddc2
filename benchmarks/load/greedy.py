"""A client that sends as fast as it can, for as long as it is let."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs
from confluent_kafka import Producer

_VALUE: Final = bytes(16 * 1024)
_QUEUE_KB: Final = 16 * 1024
_WAIT_S: Final = 0.1


@attrs.frozen
class GreedySpec:
    """It creates `warm_file` once the broker throttles it: what a quota allows at once has been sent."""

    bootstrap: str
    topic: str
    client_id: str
    warm_file: str


@attrs.frozen
class GreedyResult:
    """How many records were sent; none is returned, as the load is ended from without."""

    records: int


def greedy(spec: GreedySpec) -> GreedyResult:
    """Produce until this process is ended."""
    producer = Producer(
        {
            "bootstrap.servers": spec.bootstrap,
            "client.id": spec.client_id,
            "queue.buffering.max.kbytes": _QUEUE_KB,
            "throttle_cb": lambda _event: Path(spec.warm_file).touch(),
        }
    )
    records = 0
    while True:
        try:
            producer.produce(spec.topic, _VALUE)
            records += 1
            producer.poll(0)
        except BufferError:
            # The broker lets it wait.
            producer.poll(_WAIT_S)
