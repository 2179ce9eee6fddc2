"""Records and bytes: which parts an encoder makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from tests.plugins.schema.samples import CLASSIC, FLEXIBLE, Batches, Content, NullableContent
from tidelog.kernel.seams.storage import FileRegion, OpenFile
from tidelog.plugins.schema import EncodeError, Part, encode, encoder
from tidelog.plugins.schema.reference import reference_encode
from tidelog.plugins.schema.types import COPIED_BYTES, total_size


@attrs.frozen
class Regions:
    """Anything with a size and regions will do."""

    regions: Sequence[Part]

    @property
    def size(self) -> int:
        return total_size(self.regions)


def parts_of(message: Batches, version: int) -> list[Part]:
    parts: list[Part] = []
    encoder(Batches, version)(message, parts)
    return parts


def region(size: int) -> FileRegion:
    file: OpenFile = NoFile()
    return FileRegion(file, 0, size)


class NoFile:
    """A file that encoding must leave alone."""

    def fileno(self) -> int:
        raise AssertionError

    def resident(self, position: int, size: int) -> bool:
        raise AssertionError

    def report_error(self, error: OSError) -> None:
        """Ignore it."""

    def prefetch(self, position: int, size: int) -> None:
        raise AssertionError


def test_no_records_make_one_part() -> None:
    assert parts_of(Batches(value=None), CLASSIC) == [bytes.fromhex("0001 ffffffff 0002")]
    assert parts_of(Batches(value=Regions([])), CLASSIC) == [bytes.fromhex("0001 00000000 0002")]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like_records(kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    short = kind(bytes(COPIED_BYTES))
    (part,) = parts_of(Batches(value=short), CLASSIC)
    assert part == reference_encode(Batches(value=short), CLASSIC)
    long = kind(bytes(COPIED_BYTES + 1))
    _, content, _ = parts_of(Batches(value=long), CLASSIC)
    assert memoryview(content).obj is memoryview(long).obj  # type: ignore[arg-type]


@pytest.mark.parametrize("message", [Content, NullableContent])
@pytest.mark.parametrize("version", [CLASSIC, FLEXIBLE])
def test_long_bytes_are_handed_on_and_short_ones_copied(
    message: type[Content] | type[NullableContent], version: int
) -> None:
    for size in (0, COPIED_BYTES, COPIED_BYTES + 1):
        value = bytes(size)
        parts: list[Part] = []
        encoder(message, version)(message(value=value), parts)
        assert encode(message(value=value), version) == reference_encode(message(value=value), version)
        assert any(part is value for part in parts) == (size > COPIED_BYTES)


def test_a_memoryview_of_wider_items_counts_bytes() -> None:
    wide = memoryview(bytes(8)).cast("i")
    assert encode(Batches(value=wide), CLASSIC) == bytes.fromhex("0001 00000008 0000000000000000 0002")


def test_regions_are_handed_on() -> None:
    first, second = region(70), region(130)
    parts = parts_of(Batches(value=Regions([first, b"between", second])), FLEXIBLE)
    assert parts == [bytes.fromhex("0001 d001"), first, b"between", second, bytes.fromhex("0002 00")]


def test_an_encoder_appends() -> None:
    parts: list[Part] = [b"head"]
    encoder(Batches, CLASSIC)(Batches(value=b""), parts)
    assert parts == [b"head", bytes.fromhex("0001 00000000 0002")]


def test_after_an_error_the_parts_are_as_before() -> None:
    parts: list[Part] = [b"head"]
    with pytest.raises(EncodeError, match="Batches v0, field behind"):
        encoder(Batches, CLASSIC)(Batches(value=Regions([region(5)]), behind=1 << 20), parts)
    assert parts == [b"head"]


def test_one_run_of_bytes_cannot_hold_a_file() -> None:
    with pytest.raises(EncodeError, match="its records lie in a file"):
        encode(Batches(value=Regions([region(5)])), CLASSIC)
    with pytest.raises(EncodeError, match="field value: Regions cannot be written as records"):
        reference_encode(Batches(value=Regions([region(5)])), CLASSIC)
    assert encode(Batches(value=Regions([b"ab", b"c"])), CLASSIC) == bytes.fromhex(
        "0001 00000003 616263 0002"
    )
