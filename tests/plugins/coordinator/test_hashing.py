"""Names go to the partitions that Java's `String.hashCode` sends them to."""

from __future__ import annotations

import pytest

from tidelog.plugins.coordinator.hashing import java_hash, partition_for


@pytest.mark.parametrize(
    ("name", "hashed", "of_50"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("group", 98629247, 47),
        ("console-consumer-12345", 158455506, 6),
        ("grüppe", 914218836, 36),
        ("🦊", 1772812, 12),
        ("polygenelubricants", 0, 0),
    ],
)
def test_as_in_java(name: str, hashed: int, of_50: int) -> None:
    assert (java_hash(name), partition_for(name, 50)) == (hashed, of_50)
