"""When a log is asked about and rewritten again."""

from __future__ import annotations

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.cleanup import NOTHING, Plan, Rewrite
from tidelog.plugins.cleaner.execution.log_state import MOST_BACKOFF_S, LogState
from tidelog.plugins.cleaner.execution.planning import LogStamp, Planned

STAMP = LogStamp(TopicConfig(), 1, 2, 3, 4, 5)
OTHER_CONFIG = STAMP._replace(config=TopicConfig({"retention.ms": 1}))
OTHERS = (
    OTHER_CONFIG,
    STAMP._replace(revision=2),
    STAMP._replace(log_start_offset=3),
    STAMP._replace(last_stable_offset=4),
    STAMP._replace(high_watermark=5),
    STAMP._replace(log_end_offset=6),
)
REWRITE = Rewrite(1, 0.5, 0, lambda _: None)  # type: ignore[arg-type, return-value]


def test_is_idle_until_the_time_as_long_as_nothing_has_changed() -> None:
    state = LogState()
    assert not state.is_idle(STAMP, 0)
    state.note_plan(Planned(Plan(not_before_ms=100), STAMP))
    assert [state.is_idle(STAMP, now_ms) for now_ms in (-1, 0, 99, 100)] == [True, True, True, False]
    assert not [other for other in OTHERS if state.is_idle(other, 99)]
    assert state.is_idle(STAMP._replace(config=TopicConfig()), 99)
    state.note_plan(Planned(NOTHING, STAMP))
    assert not state.is_idle(STAMP, 99)


@for_each("removes", [{"roll": True}, {"delete_before": 0}, {"rewrite": REWRITE}])
def test_is_idle_is_false_after_a_plan_that_removes_something(removes: dict[str, object]) -> None:
    state = LogState()
    state.note_plan(Planned(Plan(not_before_ms=100, **removes), STAMP))  # type: ignore[arg-type]
    assert not state.is_idle(STAMP, 0)


def test_backoff_s_doubles_up_to_the_most() -> None:
    state = LogState()
    assert state.backoff_s == 0
    found: list[float] = []
    for _ in range(60):
        state.note_failed(STAMP, 1000.0, corrupt=False)
        found.append(state.backoff_s)
        assert not state.may_be_rewritten(STAMP, 1000 + state.backoff_s - 0.1)
        assert state.may_be_rewritten(STAMP, 1000 + state.backoff_s)
    assert found[:7] == [15, 30, 60, 120, 240, 480, 900]
    assert {*found[7:]} == {MOST_BACKOFF_S}
    state.note_rewritten()
    assert state.backoff_s == 0
    assert state.may_be_rewritten(STAMP, 0)


def test_may_be_rewritten_at_once_with_another_configuration() -> None:
    for corrupt in (False, True):
        state = LogState()
        state.note_failed(STAMP, 0, corrupt=corrupt)
        assert state.may_be_rewritten(OTHER_CONFIG, 0)


def test_may_be_rewritten_when_what_is_corrupt_may_be_gone() -> None:
    state = LogState()
    state.note_failed(STAMP, 0, corrupt=True)
    later = 10 * MOST_BACKOFF_S
    assert [other for other in (STAMP, *OTHERS) if state.may_be_rewritten(other, later)] == [*OTHERS[:3]]
    assert not state.may_be_rewritten(OTHERS[1], 1), "no sooner than other rewrites that failed"
    state.note_failed(STAMP, 0, corrupt=False)
    assert state.may_be_rewritten(STAMP, later)


def test_is_corrupt_as_of_the_last_rewrite() -> None:
    state = LogState()
    found = [state.is_corrupt]
    for corrupt in (True, False, True):
        state.note_failed(STAMP, 0, corrupt=corrupt)
        found.append(state.is_corrupt)
    state.note_rewritten()
    assert [*found, state.is_corrupt] == [False, True, False, True, False]
