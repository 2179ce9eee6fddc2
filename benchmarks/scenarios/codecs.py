"""Microseconds per message of tidelog's codecs, beside those of other packages for the same bytes."""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

import attrs

from benchmarks.load.codec_messages import KAFKA_PYTHON, KIO, codec_messages
from benchmarks.rows import Better, Row, Sample, ratio_at_most

from .context import Bench

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.load.codec_messages import CodecMessage

_SLOT_S = 0.002
"""One timing: short, so that among a few there is one in which nothing else ran."""
_SLOTS_PER_SECOND = 20
_TARGET = ratio_at_most(0.5)


@attrs.frozen(slots=False)
class Codec:
    """One direction of one message."""

    message: CodecMessage
    row: Row
    measured: Callable[[], Mapping[str, Callable[[], object]]]

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def rows(self) -> Sequence[Row]:
        return (self.row,)

    @cached_property
    def _calls(self) -> Mapping[str, Callable[[], object]]:
        return self.measured()

    def measure(self, bench: Bench, subject: str) -> list[Sample]:
        """Measure one package."""
        slots = max(1, round(_SLOTS_PER_SECOND * bench.effort.seconds))
        return [Sample(self.row.name, _least_seconds(self._calls[subject], slots) * 1e6)]


def codecs() -> list[Codec]:
    """Decoding and encoding of each message."""
    return [
        Codec(
            message,
            Row(
                f"codec-{verb}-{message.name}",
                f"{verb} {message.title}",
                "µs",
                Better.LOWER,
                (_TARGET,),
                packages=packages,
            ),
            measured,
        )
        for message in codec_messages()
        for verb, packages, measured in (
            ("decode", (KAFKA_PYTHON,), message.decoders),
            ("encode", (KAFKA_PYTHON, KIO), message.encoders),
        )
    ]


def _least_seconds(call: Callable[[], object], slots: int) -> float:
    """Return the seconds of a call, the least of some timings of many calls each."""
    count, least = 1, 0.0
    while (least := _seconds(call, count)) < _SLOT_S / 2 and count < 1 << 20:
        count *= 2
    return min(least, *(_seconds(call, count) for _ in range(slots))) / count


def _seconds(call: Callable[[], object], count: int) -> float:
    started = perf_counter()
    for _ in range(count):
        call()
    return perf_counter() - started
