"""The table of error codes."""

from __future__ import annotations

import pytest

from tidelog.plugins.protocol_kafka.messages.errors import REFRESHING, RETRIABLE, ErrorCode


def test_error_code_has_every_code_from_minus_1_to_136() -> None:
    assert [error.value for error in ErrorCode] == list(range(-1, 137))


def test_how_many_are_retriable() -> None:
    assert len(RETRIABLE) == 32
    assert REFRESHING < RETRIABLE


@pytest.mark.parametrize(
    ("error", "retriable", "refreshes_metadata"),
    [
        (ErrorCode.NONE, False, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, True),
        (ErrorCode.REQUEST_TIMED_OUT, True, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False, False),
    ],
)
def test_error_code_is_retriable_and_refreshes_metadata(
    error: ErrorCode, retriable: bool, refreshes_metadata: bool
) -> None:
    assert (error.retriable, error.refreshes_metadata) == (retriable, refreshes_metadata)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (136, "CONTROLLER_ID_NOT_REGISTERED"),
        (137, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_errors_by_code(code: int, name: str) -> None:
    assert ErrorCode.of(code).name == name
