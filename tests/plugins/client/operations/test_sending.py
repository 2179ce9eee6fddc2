"""Retries of operations by the retry policy."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest

from tests.plugins.client.fakes import NOW_MS
from tidelog.plugins.client import ClientSettings, RetryPolicy
from tidelog.plugins.client.cluster import Address, ClusterCache
from tidelog.plugins.client.errors import BrokerClosed, ClientError, ErrorResponse
from tidelog.plugins.client.operations.sending import retry_each, retrying
from tidelog.plugins.client.steps import Pause, Run, Session, Steps
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

MISSING = ErrorResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders-0")
MISSING_ID = ErrorResponse(ErrorCode.UNKNOWN_TOPIC_ID, "orders-0")
MOVING = ErrorResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "orders-0")
CLOSED = BrokerClosed("broker", "Fetch", "restart")


@attrs.define
class Attempts:
    """Attempts that fail with these errors, again and again with the last one."""

    errors: list[ClientError]
    made: int = 0

    def __call__(self, _: object = None) -> Steps[Any]:
        """Fail."""
        self.made += 1
        yield Pause(0)
        raise self.errors[min(self.made, len(self.errors)) - 1]

    def each(self, keys: list[str]) -> Steps[dict[str, Any]]:
        """Return the error as the outcome of all keys."""
        self.made += 1
        yield Pause(0)
        return dict.fromkeys(keys, self.errors[min(self.made, len(self.errors)) - 1])


def session(missing_topic_s: float) -> Session:
    policy = RetryPolicy(10, backoff_s=1, max_backoff_s=1, jitter=0, missing_topic_s=missing_topic_s)
    return Session(ClientSettings(retry=policy), ClusterCache([Address("broker", 9092)]), lambda: NOW_MS)


@pytest.mark.parametrize(
    ("missing_topic_s", "errors", "attempts"),
    [
        (3, [MISSING], 4),
        (3, [MISSING_ID], 4),
        (2.5, [MISSING], 4),
        (0, [MISSING], 1),
        (math.inf, [MISSING], 11),
        (3, [MOVING], 11),
        (3, [CLOSED], 11),
        # Only the pauses for the topic count: a broker that restarts may have it afterwards.
        (3, [CLOSED, CLOSED, CLOSED, CLOSED, MISSING], 8),
        (3, [MISSING, CLOSED, MISSING], 5),
    ],
)
def test_a_missing_topic_is_retried_for_a_shorter_time(
    missing_topic_s: float, errors: list[ClientError], attempts: int
) -> None:
    once = Attempts(errors)
    with pytest.raises(type(errors[-1])):
        finish(Run(retrying(session(missing_topic_s), once)))
    each = Attempts(errors)
    outcomes = finish(Run(retry_each(session(missing_topic_s), ["a", "b"], each.each, lambda _: True)))
    assert outcomes == dict.fromkeys(["a", "b"], errors[-1])
    assert once.made == each.made == attempts


def finish(run: Run[Any]) -> Any:
    """Run an operation whose steps are pauses."""
    while run.step is not None:
        run.succeeded(None)
    return run.result
