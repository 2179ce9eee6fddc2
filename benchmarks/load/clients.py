"""How the loads configure librdkafka: one place, so that both brokers meet the very same client."""

from __future__ import annotations

from typing import Any

# Only faults are worth a line: a broker that is stopped later on is none.
_QUIET: dict[str, Any] = {"log_level": 2, "log.connection.close": False}
# A producer that is used for slice after slice knows deleted topics: each refresh would create them again.
_NO_REFRESH: dict[str, Any] = {"topic.metadata.refresh.interval.ms": -1}
# Longer than any record waits in the queue: for one that has waited longer while its partition has a request
# in flight, librdkafka asks poll() without a pause and takes a core. A full batch does not wait for it.
_LINGER_MS = 30_000
# Small, since what is queued when the time is up still has to be sent, and waits for nothing then.
_LEAST_QUEUE_BYTES = 4_000_000
# One in flight, one that is being filled.
_BATCHES_PER_PARTITION = 2
_NO_COUNT_LIMIT = 1_000_000


def producer_config(
    bootstrap: str, partitions: int, batch_bytes: int, batch_records: int, compression: str
) -> dict[str, Any]:
    """A producer for throughput: idempotent, batches of `batch_bytes` (before compression).

    A batch leaves as soon as it has `batch_records`, which must fit. `batch_bytes` up to 1,000,000 stays
    under the default limits of librdkafka and of the broker.
    """
    queue_bytes = max(_LEAST_QUEUE_BYTES, _BATCHES_PER_PARTITION * partitions * batch_bytes)
    return {
        **_QUIET,
        **_NO_REFRESH,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "batch.size": batch_bytes,
        "batch.num.messages": batch_records,
        "linger.ms": _LINGER_MS,
        "queue.buffering.max.kbytes": queue_bytes // 1024,
        "queue.buffering.max.messages": _NO_COUNT_LIMIT,
        "delivery.report.only.error": True,
    }


def prompt_producer_config(bootstrap: str) -> dict[str, Any]:
    """A producer for latency: idempotent, each record sent as soon as it is there."""
    return {
        **_QUIET,
        **_NO_REFRESH,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 0,
        "socket.nagle.disable": True,
    }


def consumer_config(bootstrap: str) -> dict[str, Any]:
    """A consumer for latency, that is assigned its partitions: librdkafka's defaults for fetching."""
    return {
        **_QUIET,
        "bootstrap.servers": bootstrap,
        "group.id": "tidelog-benchmarks",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "socket.nagle.disable": True,
    }


def steady_consumer_config(bootstrap: str) -> dict[str, Any]:
    """A consumer for throughput, that never pauses.

    By default librdkafka rests for up to a second once its queue is full, and between two passes over a
    topic a request that waits at the topic's end holds up the ones behind it for half a second.
    """
    return {
        **consumer_config(bootstrap),
        "queued.min.messages": _NO_COUNT_LIMIT,
        "fetch.queue.backoff.ms": 1,
        "fetch.wait.max.ms": 1,
    }
