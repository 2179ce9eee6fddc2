"""The ids in a log directory: those of the directory, and those of the topics of its partitions.

`meta.properties` has the ids of the cluster, the node and the directory:

    #
    #Sat Nov 21 08:59:13 UTC 2026
    node.id=7
    directory.id=0HdLrwxml16eAgaHZxYmJA
    version=1
    cluster.id=MkU3OEVBNTcwNTJENDM2Qg

It is a Java properties file, in any order of lines. `partition.metadata` has the topic id of a partition's
directory in 43 bytes: 22 characters of URL-safe base64 without padding, and no final newline.

    version: 0
    topic_id: X1qQuvPyRWqJJavLZen1rw

The bytes of both are as Apache Kafka 4.4.0 writes them; sources: Apache Kafka's `LogManager` and
`PartitionMetadataFile`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.ids import decode_uuid, encode_uuid

META_PROPERTIES = "meta.properties"
_VERSION = "1"
_TOPIC_ID_PREFIX = "version: 0\ntopic_id: "


class MetaProperties(NamedTuple):
    """The three ids in the file; missing ones are None."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """Blocking: return a directory's ids, None when it is new.

    Raises:
        ConfigError: the file is malformed.
    """
    path = directory / META_PROPERTIES
    content = disk.read_file(path)
    if content is None:
        return None
    try:
        values = _parse(content.decode())
        if values.get("version") not in ("0", _VERSION):
            raise ValueError(f"its version is {values.get('version')!r}, not {_VERSION}")
        # Version 0 was written by brokers that kept their metadata in ZooKeeper.
        node_id = values.get("node.id", values.get("broker.id"))
        number = None if node_id is None else int(node_id)
        return MetaProperties(values.get("cluster.id"), number, values.get("directory.id"))
    except ValueError as error:
        raise ConfigError(f"{path} cannot be used: {error}; restore it from a backup") from None


def check_used(directories: Sequence[Path]) -> None:
    """Blocking: check that a broker has used one of the directories.

    Raises:
        ConfigError: none of them has the file.
    """
    if not any((directory / META_PROPERTIES).exists() for directory in directories):
        names = ", ".join(map(str, directories))
        raise ConfigError(
            f"no broker has used {names}: there is no {META_PROPERTIES}; set log.dirs to those of one"
        )


def write_meta_properties(directory: Path, ids: MetaProperties, now_ms: int) -> None:
    """Blocking: write a directory's ids, atomically and durably."""
    written = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    lines = [
        "#",
        f"#{written}",
        f"node.id={ids.node_id}",
        f"directory.id={ids.directory_id}",
        f"version={_VERSION}",
        f"cluster.id={ids.cluster_id}",
    ]
    disk.replace_file(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def _parse(text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("#", "!")):
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"line {line!r} has no '='")
            values[name.strip()] = value.strip()
    return values


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """Return the file's content."""
    return (_TOPIC_ID_PREFIX + encode_uuid(topic_id)).encode()


def decode_partition_metadata(content: bytes) -> UUID:
    """Return the topic id in a file's content.

    Raises:
        ValueError: the content is malformed.
    """
    text = content.decode().rstrip("\n")
    if not text.startswith(_TOPIC_ID_PREFIX):
        raise ValueError(f"it does not begin with {_TOPIC_ID_PREFIX!r}")
    return decode_uuid(text.removeprefix(_TOPIC_ID_PREFIX))
