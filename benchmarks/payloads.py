"""Record values that look like what people send: short JSON events, alike but not the same."""

from __future__ import annotations

import random
from functools import cache

_CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_AIRPORTS = ("ATL", "BOS", "EWR", "JFK", "LAX", "LGA", "MIA", "ORD", "SEA", "SFO")
_EPOCH_MS = 1_700_000_000_000
# Far apart enough that no compressor's window in one batch meets the same value twice.
_DISTINCT_BYTES = 4_000_000


@cache
def make_values(value_bytes: int, seed: int = 1) -> list[bytes]:
    """Distinct values of exactly `value_bytes` each, the same ones for the same seed.

    lz4 makes them a little under half as long, as it does with real events.
    """
    count = max(64, _DISTINCT_BYTES // value_bytes)
    text = _events(count * value_bytes, random.Random(seed))
    return [text[start : start + value_bytes] for start in range(0, count * value_bytes, value_bytes)]


def _events(at_least_bytes: int, rng: random.Random) -> bytes:
    lines: list[bytes] = []
    length = 0
    while length < at_least_bytes:
        line = _event(rng)
        lines.append(line)
        length += len(line)
    return b"".join(lines)


def _event(rng: random.Random) -> bytes:
    return (
        f'{{"ts":{_EPOCH_MS + rng.randrange(10**9)},"carrier":"{rng.choice(_CARRIERS)}",'
        f'"tail":"N{rng.randrange(99_999):05d}","origin":"{rng.choice(_AIRPORTS)}",'
        f'"delay":{rng.randrange(-20, 300)},"id":"{rng.getrandbits(64):016x}"}}\n'
    ).encode()
