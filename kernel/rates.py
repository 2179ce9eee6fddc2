"""Rates measured over samples of time, and a token bucket: what limits per second are compared with.

Source: `Rate`, `SampledStat`, `TokenBucket` and `QuotaUtils` of Apache Kafka.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple


class SampleWindows(NamedTuple):
    """How many samples are remembered, and how many seconds each one lasts."""

    samples: int
    seconds: float

    @property
    def whole_seconds(self) -> float:
        """The seconds of all samples but the last, which is not complete."""
        return (self.samples - 1) * self.seconds


class _Sample:
    __slots__ = ("amount", "last", "start")

    def __init__(self, now: float) -> None:
        self.start = self.last = now
        self.amount = 0.0


class SampledRate:
    """How much was added per second, as far as samples go back; without that many, as if they were there."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def add(self, amount: float, now: float) -> None:
        """Add an amount at `now`, in seconds; a negative one takes back what was added."""
        samples = self._samples
        if not samples or now - samples[-1].start >= self._windows.seconds:
            samples.append(_Sample(now))
        sample = samples[-1]
        sample.last = now
        sample.amount += amount

    def excess_seconds(self, limit: float, now: float) -> float:
        """Return for how many seconds nothing may be added until the rate is `limit`, 0 if it is not above.

        It is infinite if the limit is 0.
        """
        elapsed = self._measured_seconds(now)
        # Not kept as a sum: amounts that are not whole would add up to something else in the end.
        total = sum([sample.amount for sample in self._samples])
        if total <= limit * elapsed:
            return 0.0
        return total / limit - elapsed if limit > 0 else math.inf

    def is_idle(self, now: float) -> bool:
        """Return whether it is the same as a new one."""
        return not self._samples or self._is_old(self._samples[-1], now)

    def _is_old(self, sample: _Sample, now: float) -> bool:
        # By its last addition: a sample that began before the window counts while it overlaps it.
        return now - sample.last >= self._windows.samples * self._windows.seconds

    def _measured_seconds(self, now: float) -> float:
        samples, (count, seconds) = self._samples, self._windows
        while samples and self._is_old(samples[0], now):
            samples.popleft()
        elapsed = now - samples[0].start if samples else 0.0
        # Samples that are not there yet count as full ones without any, so that what comes first does not
        # look like a high rate.
        missing = max(0, count - 1 - int(elapsed / seconds))
        return max(elapsed + missing * seconds, 0.001)


class TokenBucket:
    """What may be taken: it fills by a rate, and holds as much as comes in all samples. It begins full."""

    __slots__ = ("_limit", "_tokens", "_updated", "_windows")

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._tokens = math.inf
        self._limit = self._updated = 0.0

    def take(self, amount: float, limit: float, now: float) -> None:
        """Take an amount, also if there is less; `limit` is what comes per second."""
        self._fill(limit, now)
        self._tokens -= amount

    def excess_seconds(self, limit: float, now: float) -> float:
        """Return in how many seconds what was taken too much has come; 0 if nothing was."""
        self._fill(limit, now)
        if self._tokens >= 0:
            return 0.0
        return -self._tokens / limit if limit > 0 else math.inf

    def is_idle(self, now: float) -> bool:
        """Return whether it is full, as a new one."""
        return self._tokens + self._limit * (now - self._updated) >= self._most(self._limit)

    def _most(self, limit: float) -> float:
        return self._windows.samples * self._windows.seconds * limit

    def _fill(self, limit: float, now: float) -> None:
        self._tokens = min(self._most(limit), self._tokens + limit * (now - self._updated))
        self._limit, self._updated = limit, now
