"""Values of metadata records as Apache Kafka 4.3.1 and 4.4.0 wrote them, one a line in `records.txt`."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class Vector:
    """A record's type and version, as Kafka's `DumpLogSegments` names them, and its value in the log."""

    name: str
    version: int
    value: bytes

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}-{self.value[-6:].hex()}"


def read_vectors() -> list[Vector]:
    """All vectors."""
    lines = Path(__file__).with_name("records.txt").read_text().splitlines()
    return [
        Vector(name, int(version), bytes.fromhex(value))
        for name, version, value in (line.split(" ") for line in lines if not line.startswith("#"))
    ]


def vectors_of(*names: str) -> list[bytes]:
    """Values of the vectors of some types, in the order of the file."""
    return [vector.value for vector in read_vectors() if vector.name in names]
