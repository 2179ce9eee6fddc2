"""`DurableChange`: a class of a type of record is written, read back and applied."""

from __future__ import annotations

from typing import Self

import attrs
import pytest

from tests.tables import for_each
from tidelog.plugins.coordinator.runtime.durable_change import DurableChange, UnreadableRecord, VersionedValue
from tidelog.plugins.schema.declare import VersionSpan, int32, string, struct


@struct(VersionSpan(0, 0))
class ColorKey:
    name: str = string()


@struct(VersionSpan(0, 1))
class ColorValue:
    rgb: int = int32()
    alpha: int = int32(versions="1+", default=-1)


@attrs.frozen
class ColorChange(DurableChange[dict[str, int]]):
    """What a name stands for."""

    key_type = 258
    key_schema = ColorKey
    value_schema = ColorValue

    name: str
    rgb: int | None

    def key(self) -> ColorKey:
        return ColorKey(name=self.name)

    def value(self) -> VersionedValue | None:
        return None if self.rgb is None else VersionedValue(1, ColorValue(rgb=self.rgb, alpha=5))

    def apply(self, state: dict[str, int]) -> None:
        if self.rgb is None:
            state.pop(self.name, None)
        else:
            state[self.name] = self.rgb

    @classmethod
    def from_messages(cls, key: ColorKey, value: ColorValue | None) -> Self:
        if value is not None and value.rgb < 0:
            raise ValueError("negative")
        return cls(key.name, None if value is None else value.rgb)


KEY = b"\1\2\0\3red"
RED = ColorChange("red", 7)


def test_to_record_begins_with_the_key_type_and_the_version() -> None:
    assert RED.to_record() == (KEY, b"\0\1\0\0\0\7\0\0\0\5")
    assert ColorChange("red", None).to_record() == (KEY, None)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (b"\0\0\0\0\0\7", RED),
        (b"\0\1\0\0\0\7\0\0\0\5", RED),
        (b"\0\0\0\0\0\7 of a later broker", RED),
        (None, ColorChange("red", None)),
    ],
)
def test_from_record_reads_every_version_and_tombstones(value: bytes | None, change: ColorChange) -> None:
    assert ColorChange.from_record(KEY, value) == change


@for_each(
    ("key", "value", "reason"),
    [
        (KEY, b"", "knows versions 0 to 1"),
        (KEY, b"\0", "knows versions 0 to 1"),
        (KEY, b"\0\2\0\0\0\7", "knows versions 0 to 1"),
        (KEY, b"\xff\xff\0\0\0\7", "knows versions 0 to 1"),
        (KEY, b"\0\0\0\0\0", "ColorValue v0"),
        (KEY, b"\0\0\xff\0\0\0", "negative"),
        (KEY[:-1], None, "ColorKey v0"),
        (KEY + b"x", None, "ColorKey v0"),
    ],
)
def test_from_record_refuses_what_it_cannot_decode(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(UnreadableRecord, match=f"type 258 .*{reason}"):
        ColorChange.from_record(key, value)


def test_apply_of_a_written_change_and_of_one_read_back_agree() -> None:
    written: dict[str, int] = {}
    read: dict[str, int] = {}
    for change in (RED, ColorChange("blue", 1), ColorChange("red", None)):
        change.apply(written)
        ColorChange.from_record(*change.to_record()).apply(read)
    assert written == read == {"blue": 1}
