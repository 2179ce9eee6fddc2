"""The rate limit of log events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.rate_limit import RateLimit


class Clock:
    """Seconds, moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_admit_lets_one_event_per_key_and_interval_pass_and_counts_the_rest() -> None:
    clock = Clock()
    limit = RateLimit(10, now=clock)
    assert [limit.admit("a"), limit.admit("a"), limit.admit("b"), limit.admit("a")] == [0, None, 0, None]
    clock.now = 9.9
    assert limit.admit("a") is None
    clock.now = 10
    assert limit.admit("a") == 3
    assert limit.admit("a") is None
    clock.now = 20
    assert limit.admit("a") == 1
    clock.now = 30
    assert limit.admit("a") == 0


def test_admit_with_too_many_keys_applies_one_shared_limit_in_bounded_memory() -> None:
    clock = Clock()
    limit = RateLimit(10, max_keys=3, now=clock)
    let_through = [limit.admit(str(number)) for number in range(1000)]
    assert let_through.count(None) == 996
    clock.now = 10
    assert limit.admit("0") == 0
    assert limit.admit("new") == 0


@given(st.lists(st.tuples(st.integers(0, 5 * 64), st.integers(0, 6)), max_size=60))
def test_admit_lets_every_event_pass_or_counts_it(steps: list[tuple[int, int]]) -> None:
    """Parts of a second that add up without rounding: ten seconds later has to be ten seconds."""
    clock = Clock()
    limit = RateLimit(10, now=clock)
    seen: dict[str, list[int | None]] = {}
    for ticks, number in steps:
        clock.now += ticks / 64
        seen.setdefault(str(number), []).append(limit.admit(str(number)))
    clock.now += 10
    for key, answers in seen.items():
        last = limit.admit(key)
        told = sum(answer for answer in [*answers, last] if answer is not None)
        assert told == answers.count(None)


def test_admit_lets_as_many_events_pass_as_it_should() -> None:
    clock = Clock()
    limit = RateLimit(10, most=2, now=clock)
    assert [limit.admit("a") for _ in range(5)] == [0, 0, None, None, None]
    clock.now = 10
    assert [limit.admit("a") for _ in range(3)] == [3, 0, None]
    clock.now = 20
    assert [limit.admit("a"), limit.admit("b")] == [1, 0]
