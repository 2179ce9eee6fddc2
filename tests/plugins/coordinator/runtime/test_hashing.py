"""Names go to the partitions that Apache Kafka keeps their state in."""

from __future__ import annotations

import random
import sys

import pytest

from tests.clients.java_programs import run_inside_kafka
from tests.tables import for_each
from tidelog.plugins.coordinator.runtime.hashing import (
    BYTES_PER_ENTRY,
    StateHashes,
    java_hash,
    partition_for,
    state_hash,
)

MIN_INT = -(2**31)
OF_MIN_INT = ("polygenelubricants", "GydZG_", "DESIGNING WORKHOUSES")
NAMES = 10_000
SEED = 4_300_001
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz0123456789-_.",
    "\0\t /:%\x7f",
    "äßçñøžŁжשקあ漢한",
    "🦊🐋𝒳𐍈\U0010ffff",
    "\ud800\udbff\udc00\udfff",
)


def names_of_every_kind() -> list[str]:
    """Return names of positive, negative, zero and smallest hash, of all planes and with lone surrogates."""
    chance = random.Random(SEED)
    names = ["", "\0", "f5a5a608", *OF_MIN_INT, *"".join(ALPHABETS)]
    while len(names) < NAMES:
        alphabet = chance.choice((*ALPHABETS, "".join(ALPHABETS)))
        names.append("".join(chance.choices(alphabet, k=chance.choice((1, 2, 5, 6, 7, 20, 36, 249)))))
    return names


@for_each(
    ("name", "hashed", "of_50"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("group", 98629247, 47),
        ("console-consumer-12345", 158455506, 6),
        ("my-group", -1906497762, 12),
        ("orders", -1008770331, 31),
        ("grüppe", -1233264812, 12),
        ("🦊", 1772812, 12),
        ("f5a5a608", 0, 0),
        *((name, MIN_INT, 0) for name in OF_MIN_INT),
    ],
)
def test_java_hash_and_partition_for_of_names(name: str, hashed: int, of_50: int) -> None:
    assert (java_hash(name), partition_for(name, 50)) == (hashed, of_50)


@pytest.mark.parametrize("partitions", [1, 2, 50, 64, 97])
def test_partition_for_is_what_both_of_kafkas_coordinators_compute(partitions: int) -> None:
    names = names_of_every_kind()
    hashes = [java_hash(name) for name in names]
    assert min(hashes) == MIN_INT
    assert 0 in hashes
    assert sum(value < 0 for value in hashes) > NAMES // 4
    units = "\n".join(name.encode("utf-16-be", "surrogatepass").hex() for name in names)
    told = run_inside_kafka("StatePartitions", [str(partitions)], units + "\n").splitlines()
    ours = [partition_for(name, partitions) for name in names]
    assert [tuple(map(int, line.split())) for line in told] == [(ours_, ours_) for ours_ in ours]


def test_state_hashes_stay_within_their_bound_of_memory() -> None:
    hashes = StateHashes(100_000)
    # Of each length more names than the cache holds; to hash the longest takes milliseconds.
    counts = {5: 1000, 500: 300, 30_000: 10, 200_000: 3}
    names = [f"{number}-{'x' * length}" for length, count in counts.items() for number in range(count)]
    names += [f"{number}-{'🦊' * 5_000}" for number in range(20)]
    for name in names:
        assert hashes(name) == hashes(name) == state_hash(name)
        held = sum(sys.getsizeof(kept) + BYTES_PER_ENTRY for kept in hashes)
        assert held <= 100_000
    small = [f"group-{number}" for number in range(300)]
    for name in [*small, *small]:
        hashes(name)
    assert set(small) <= set(hashes)
