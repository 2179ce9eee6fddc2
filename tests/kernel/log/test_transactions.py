"""What keeps committed readers back: open transactions, and ended ones whose marker is not committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.log.transactions import LogTransactions

Histories = st.lists(st.tuples(st.sampled_from(["begin", "end", "commit"]), st.integers(0, 7)), max_size=60)


@given(Histories)
def test_settle_and_stable_offset_after_agree_with_a_search_of_all_transactions(
    history: list[tuple[str, int]],
) -> None:
    """Of any number of producers, ended in any order, with a high watermark that lags behind."""
    transactions = LogTransactions()
    open_now: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    log_end = high_watermark = 0
    for event, choice in history:
        if event == "begin" and choice not in open_now:
            transactions.begin(log_end, choice)
            open_now[choice] = log_end
            log_end += 1
        elif event == "end" and choice in open_now:
            first = open_now.pop(choice)
            others = min(open_now.values(), default=log_end + 1)
            assert transactions.stable_offset_after(first, log_end) == others
            transactions.end(first, log_end)
            ended.append((first, log_end))
            log_end += 1
        elif event == "commit":
            high_watermark = max(high_watermark, log_end - choice)
        undecided = [*open_now.values(), *(first for first, last in ended if last >= high_watermark)]
        assert transactions.settle(high_watermark) == min(undecided, default=None)


def test_a_later_end_of_an_earlier_beginning_outlasts_what_lies_between() -> None:
    transactions = LogTransactions()
    for first in (1, 3, 5):
        transactions.begin(first, first)
    for first, last in ((1, 10), (5, 12), (3, 14)):
        transactions.end(first, last)
    assert [transactions.settle(offset) for offset in (10, 11, 13, 15)] == [1, 3, 3, None]
