"""A test that is skipped says why, also inside of a trio run."""

from __future__ import annotations

import pytest

from tests.conftest import keeping_the_reason


@keeping_the_reason()
def skip_as_pytest_trio_does() -> None:
    try:
        raise BaseExceptionGroup("nursery", [pytest.skip.Exception("no room today")])
    except BaseExceptionGroup:
        pytest.skip()


def test_the_reason_of_a_trio_test_is_kept() -> None:
    with pytest.raises(pytest.skip.Exception, match="no room today"):
        skip_as_pytest_trio_does()
