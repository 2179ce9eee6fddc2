"""Spark's own format `kafka`, which PySpark lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .maven import resolve_jars

if TYPE_CHECKING:
    from pathlib import Path

# They work with Spark 4.3, and are the newest that fit of those that are published.
_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


def find_kafka_format() -> Path:
    """The folder with its jars, fetched from Maven Central unless they are in the cache.

    Raises PeerUnavailableError when Maven or the network is missing.
    """
    return resolve_jars(*_JARS, alone=True)
