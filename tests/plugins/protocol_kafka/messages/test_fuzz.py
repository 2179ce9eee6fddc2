"""Bytes that are no message give a `DecodeError`, soon and without much memory, and nothing else."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plugins.protocol_kafka.messages.strategies import (
    all_versions,
    messages,
    minimal,
    newest_of_each_layout,
)
from tests.tables import for_each
from tidelog.plugins.schema import DecodeError, decoder, encode
from tidelog.plugins.schema.reference import reference_decode

# Counts and lengths that promise far more than there is or are negative; varints that are too long.
EXTREMES = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff" * 11,
    b"\x00",
    b"\x01",
)

# Many times what a message of a few hundred bytes can take, and far below one array of 2**31 - 1 elements.
ENOUGH_BYTES = 256 * 1024

REQUESTS = newest_of_each_layout(all_versions(requests_only=True), older=[pytest.mark.long])
FUZZ = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(decode: Any, data: bytes) -> Any:
    """The message and where it ends, or None for bytes that are refused."""
    try:
        return decode(data)
    except DecodeError:
        return None


def mutate(data: st.DataObject, valid: bytes) -> bytes:
    """Valid bytes with some of them changed, added, or taken away."""
    changed = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        width = data.draw(st.integers(0, 6))
        changed[at : at + width] = data.draw(st.sampled_from(EXTREMES) | st.binary(max_size=6))
    return bytes(changed)


@pytest.mark.parametrize(("cls", "version"), newest_of_each_layout(all_versions(), older=[pytest.mark.long]))
@FUZZ
@given(data=st.data())
def test_decoder_and_reference_decode_agree_on_mutated_messages(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    mutated = mutate(data, encode(data.draw(messages(cls, version)), version))
    compiled = outcome(lambda raw: decoder(cls, version)(raw, 0), mutated)
    assert compiled == outcome(lambda raw: reference_decode(cls, version, raw), mutated)


@pytest.mark.long
@pytest.mark.parametrize(("cls", "version"), REQUESTS)
@FUZZ
@given(raw=st.binary(max_size=80))
def test_decoder_and_reference_decode_agree_on_random_bytes(cls: type[Any], version: int, raw: bytes) -> None:
    compiled = outcome(lambda raw: decoder(cls, version)(raw, 0), raw)
    assert compiled == outcome(lambda raw: reference_decode(cls, version, raw), raw)


@for_each(("cls", "version"), all_versions())
def test_decoder_refuses_every_truncation_of_a_message(cls: type[Any], version: int) -> None:
    encoded = encode(minimal(cls, version), version)
    for size in range(len(encoded)):
        with pytest.raises(DecodeError, match=f"{cls.__name__} v{version}"):
            decoder(cls, version)(encoded[:size], 0)


@for_each(("cls", "version"), [each for each in REQUESTS if not each.marks])
def test_decoder_takes_little_memory_for_extreme_counts_and_lengths(cls: type[Any], version: int) -> None:
    encoded = encode(minimal(cls, version), version)
    decode = decoder(cls, version)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for extreme in EXTREMES:
            for at in range(len(encoded)):
                outcome(lambda raw: decode(raw, 0), encoded[:at] + extreme + encoded[at + len(extreme) :])
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < ENOUGH_BYTES
    finally:
        tracemalloc.stop()
