"""Large messages: what is too large for one step, and the same bytes and values in many."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.schema.samples import FLEXIBLE
from tests.tables import for_each
from tidelog.plugins.schema import (
    DecodeError,
    TooManyElements,
    decode,
    encode,
    large_decoder,
    large_encoder,
    small_decoder,
    small_encoder,
)
from tidelog.plugins.schema.declare import VersionSpan, array, struct
from tidelog.plugins.schema.layout import (
    FEW_ELEMENTS,
    LARGE_REQUEST,
    MAX_ELEMENTS,
    MAX_REQUEST_ELEMENTS,
    SMALL_REQUEST,
)
from tidelog.plugins.schema.types import INT32, STRING


@struct(VersionSpan(0, 1, flexible=1))
class Named:
    """A list of strings and one of numbers."""

    names: list[str] = array(STRING)
    numbers: list[int] = array(INT32)


def named(names: int, numbers: int = 0) -> Named:
    """A message of so many."""
    return Named(names=[f"name {number}" for number in range(names)], numbers=[*range(numbers)])


def run(steps: Any) -> tuple[int, Any]:
    """How many steps it took, and the outcome."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return count, done.value
        count += 1


@for_each("version", [0, FLEXIBLE])
@for_each(("names", "numbers"), [(0, 0), (FEW_ELEMENTS, 0), (400, FEW_ELEMENTS - 400)])
def test_few_elements_are_decoded_and_encoded_at_once(version: int, names: int, numbers: int) -> None:
    message = named(names, numbers)
    data = encode(message, version)
    assert small_decoder(Named, version)(data, 0) == (message, len(data))
    parts: list[Any] = []
    small_encoder(Named, version)(message, parts)
    assert b"".join(parts) == data


@pytest.mark.parametrize("version", [0, FLEXIBLE])
@pytest.mark.parametrize(("names", "numbers"), [(FEW_ELEMENTS + 1, 0), (401, FEW_ELEMENTS - 400)])
def test_more_elements_are_too_many_for_one_step(version: int, names: int, numbers: int) -> None:
    data = encode(named(names, numbers), version)
    with pytest.raises(TooManyElements):
        small_decoder(Named, version)(data, 0)


def test_an_encoder_of_small_answers_leaves_the_parts_as_they_were() -> None:
    parts: list[Any] = [b"before"]
    with pytest.raises(TooManyElements):
        small_encoder(Named, FLEXIBLE)(named(FEW_ELEMENTS + 1), parts)
    assert parts == [b"before"]


@for_each("version", [0, FLEXIBLE])
@for_each(("names", "numbers"), [(0, 0), (5000, 0), (5000, MAX_REQUEST_ELEMENTS - 5000)])
def test_many_elements_take_many_steps(version: int, names: int, numbers: int) -> None:
    message = named(names, numbers)
    data = encode(message, version)
    steps, (decoded, position) = run(large_decoder(Named, version)(data, 0))
    assert (decoded, position) == (message, len(data))
    assert steps > names // 100
    parts: list[Any] = []
    steps, _ = run(large_encoder(Named, version)(message, parts))
    assert b"".join(parts) == data
    assert steps > names // 100


@pytest.mark.parametrize(("names", "numbers"), [(0, MAX_REQUEST_ELEMENTS * 7 // 5), (50_000, 75_000)])
def test_large_decoder_refuses_more_than_max_request_elements(names: int, numbers: int) -> None:
    """Four bytes for a number, and one for an empty name, allow no other."""
    message = Named(names=[""] * names, numbers=[0] * numbers)
    data = encode(message, FLEXIBLE)
    assert names + numbers > LARGE_REQUEST.most_elements(len(data)) > MAX_REQUEST_ELEMENTS
    with pytest.raises(DecodeError, match="elements"):
        run(large_decoder(Named, FLEXIBLE)(data, 0))
    assert decode(Named, FLEXIBLE, data) == message  # an answer may


def test_large_decoder_takes_more_elements_of_a_larger_request() -> None:
    """As in a request that names the partitions of a large cluster, with 16 bytes of text each."""
    message = Named(
        names=[f"a name of many {number:8}" for number in range(2 * MAX_REQUEST_ELEMENTS)], numbers=[]
    )
    data = encode(message, FLEXIBLE)
    _, (decoded, _) = run(large_decoder(Named, FLEXIBLE)(data, 0))
    assert decoded == message


@pytest.mark.parametrize(
    ("size", "most"),
    [(0, 100_000), (15, 100_000), (16, 100_001), (1_600_000, 200_000), (100 << 20, MAX_ELEMENTS)],
)
def test_most_elements_of_a_large_request_grow_with_its_size(size: int, most: int) -> None:
    assert LARGE_REQUEST.most_elements(size) == most
    assert SMALL_REQUEST.most_elements(size) == FEW_ELEMENTS


def test_tagged_fields_count_as_elements() -> None:
    tagged = encode(Named(names=[], numbers=[]), FLEXIBLE)[:-1] + b"\x80\x08" + b"\x63\x00" * 1024
    with pytest.raises(DecodeError, match="1024 tagged fields are more than 1000"):
        decode(Named, FLEXIBLE, tagged)
