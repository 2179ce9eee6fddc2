"""`partition.metadata`: the topic id of a partition's directory.

    version: 0
    topic_id: X1qQuvPyRWqJJavLZen1rw

43 bytes: the id is 22 characters of URL-safe base64 without padding, and there is no final newline.
Source: Apache Kafka's `PartitionMetadataFile`; the bytes as Apache Kafka 4.3.1 writes them.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.kernel.ids import decode_uuid, encode_uuid

_PREFIX = "version: 0\ntopic_id: "


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the file's content."""
    return (_PREFIX + encode_uuid(topic_id)).encode()


def decode_partition_metadata(content: bytes) -> UUID:
    """Return the topic id in a file's content.

    Raises:
        ValueError: the content is malformed.
    """
    text = content.decode().rstrip("\n")
    if not text.startswith(_PREFIX):
        raise ValueError(f"it does not begin with {_PREFIX!r}")
    return decode_uuid(text.removeprefix(_PREFIX))
