"""Whom a server stays awake for, on a clock that the test moves."""

from __future__ import annotations

import attrs
import pytest

from tidelog.kernel.server.look_out import MOST_DISTRUST, Attention, LookOut

SECONDS = 400e-6
SOON = SECONDS / 2
LATE = SECONDS * 2


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attention(clock: Clock) -> Attention:
    return Attention(SECONDS, clock, processors=2)


def request_after(look_out: LookOut, clock: Clock, pause: float) -> bool:
    """Let a request come that long after the last answer; whether the server was awake then."""
    awake = look_out.goes_on()
    clock.now += pause
    if awake and not look_out.goes_on():
        awake = False
    if not awake:
        look_out.woken()
    look_out.served()
    return awake


def test_a_prompt_client_is_looked_out_for(attention: Attention, clock: Clock) -> None:
    look_out = LookOut(attention)
    look_out.served()
    assert [request_after(look_out, clock, SOON) for _ in range(4)] == [False, True, True, True]


def test_a_slow_client_is_not(attention: Attention, clock: Clock) -> None:
    look_out = LookOut(attention)
    look_out.served()
    assert not any(request_after(look_out, clock, LATE) for _ in range(10))


def test_no_longer_than_it_takes_a_prompt_client(attention: Attention, clock: Clock) -> None:
    look_out = LookOut(attention)
    look_out.served()
    request_after(look_out, clock, SOON)
    assert look_out.goes_on()
    clock.now += LATE
    assert not look_out.goes_on()
    assert not look_out.goes_on()


def test_not_after_a_long_answer(attention: Attention, clock: Clock) -> None:
    look_out = LookOut(attention)
    look_out.served()
    assert [request_after(look_out, clock, SOON) for _ in range(2)] == [False, True]
    look_out.served(at_length=True)
    assert [request_after(look_out, clock, SOON) for _ in range(3)] == [False, False, True]


def test_who_is_prompt_only_now_and_then_is_looked_out_for_less_and_less(
    attention: Attention, clock: Clock
) -> None:
    look_out = LookOut(attention)
    look_out.served()
    in_vain = 0
    for _ in range(1000):
        looking = look_out.goes_on()
        in_vain += looking
        # Whenever it is looked out for, it takes its time.
        request_after(look_out, clock, LATE if looking else SOON)
    assert 0 < in_vain < 1000 / MOST_DISTRUST + 10


def test_one_at_a_time(attention: Attention, clock: Clock) -> None:
    first, second = LookOut(attention), LookOut(attention)
    for look_out in (first, second):
        look_out.served()
        request_after(look_out, clock, SOON)
    assert first.goes_on()
    assert not second.goes_on()
    first.end()
    assert second.goes_on()
    second.served()
    assert first.goes_on()


@pytest.mark.parametrize(("seconds", "processors"), [(SECONDS, 1), (0.0, 2)])
def test_not_with_a_single_processor_and_not_when_it_is_switched_off(
    clock: Clock, seconds: float, processors: int
) -> None:
    look_out = LookOut(Attention(seconds, clock, processors))
    look_out.served()
    assert not any(request_after(look_out, clock, SOON) for _ in range(10))
