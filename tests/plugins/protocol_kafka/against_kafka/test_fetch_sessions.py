"""The same fetch sessions with Apache Kafka and with tidelog: both answer each request alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.plugins.protocol_kafka.apis.client import framed
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .asking import Asker, message
from .session_script import UNKNOWN, SessionScript

BOTH = [("a", 0, 1), ("a", 1, 1), ("b", 0, 1)]


def opened(script: SessionScript) -> Any:
    """Open a session at the end of three partitions."""
    script.create("a")
    script.create("b", 1)
    return script.fetch(0, BOTH)


def kinds_of_news(script: SessionScript) -> Iterator[Any]:
    """What an incremental response has, and what it leaves out."""
    yield opened(script)
    yield script.fetch(1)
    script.produce("a", 1)
    yield script.fetch(2)
    yield script.fetch(3)
    yield script.fetch(4, [("a", 1, 2)])
    yield script.fetch(5)
    script.produce("a", 0, 2)
    script.delete_records("a", 0, 2)
    yield script.fetch(6)
    yield script.fetch(7)
    yield script.fetch(8, [("a", 0, 3)])
    script.delete_records("a", 0, 3)
    yield script.fetch(9, isolation_level=1)
    yield script.fetch(10, isolation_level=1)
    yield script.fetch(11, [("a", 0, 3)], current_leader_epoch=7)
    yield script.fetch(12)
    yield script.fetch(13, [("a", 0, 3)])
    yield script.fetch(14, min_bytes=0, max_wait_ms=1000)


def epochs_and_ids(script: SessionScript) -> Iterator[Any]:
    """Requests that are not the next one of a session."""
    yield opened(script)
    yield script.fetch(2)
    yield script.fetch(1)
    yield script.fetch(1)
    yield script.fetch(-2)
    yield script.fetch(2**31 - 1)
    yield script.fetch(2, session_id=0)
    yield script.fetch(2, session_id=(script.session_id + 1) % 2**28 or 1)
    yield script.fetch(2, version=12 if script.version > 12 else 13)
    yield script.fetch(2)
    # A full request closes the session that it names.
    yield script.fetch(-1, BOTH)
    yield script.fetch(3)
    yield script.fetch(-1, BOTH)
    yield script.fetch(0, BOTH, session_id=0)
    first = script.session_id
    yield script.fetch(0, BOTH[:1])
    yield script.fetch(1, session_id=first)
    yield script.fetch(1)
    yield script.fetch(-1)


def partitions_that_come_and_go(script: SessionScript) -> Iterator[Any]:
    """Partitions that are added, removed, named twice, and that nobody has."""
    yield opened(script)
    yield script.fetch(1, [("a", 2, 0), ("a", 7, 0), (UNKNOWN, 0, 0)])
    yield script.fetch(2)
    yield script.fetch(3, [("a", 2, 1)], [("a", 7)])
    yield script.fetch(4, forgotten=[(UNKNOWN, 0), (UNKNOWN, 1), ("a", 5), ("a", 5)])
    yield script.fetch(5, [("b", 0, 0), ("b", 0, 1)])
    yield script.fetch(6, [("a", 2, 0)], [("a", 2)])
    yield script.fetch(7, [("a", 2, 1)])
    yield script.fetch(8, forgotten=[(topic, index) for topic, index, _ in BOTH])
    yield script.fetch(9, [("b", 0, 0)], [("a", 2), ("b", 0)])
    yield script.fetch(10)
    # An empty session is one, too.
    yield script.fetch(0, session_id=0)
    yield script.fetch(1, [("a", 0, 1)])
    yield script.fetch(2)
    yield script.fetch(0, [(UNKNOWN, 0, 0), ("a", 9, 0), ("a", 0, 0)], session_id=0)
    yield script.fetch(1)
    yield script.fetch(2, [("a", 0, 9)])
    yield script.fetch(3)
    yield script.fetch(4, [("a", 0, 1)], [(UNKNOWN, 0), ("a", 9)])
    yield script.fetch(5)


def order_of_partitions(script: SessionScript) -> Iterator[Any]:
    """A partition whose records are in a response comes last from then on."""
    script.create("a", 4)
    yield script.fetch(0, [("a", index, 0) for index in (2, 0, 3, 1)])
    for epoch in range(1, 7):
        yield script.fetch(epoch, max_bytes=1)
    yield script.fetch(7)
    yield script.fetch(8, [(UNKNOWN, 1, 0), ("a", 2, 1), ("a", 9, 0), (UNKNOWN, 0, 0)], max_bytes=1)
    yield script.fetch(9, max_bytes=200)
    yield script.fetch(10)


def topics_that_come_and_go(script: SessionScript) -> Iterator[Any]:
    """A topic that is deleted, and another one that gets its name."""
    yield opened(script)
    yield script.fetch(1)
    script.delete("b")
    yield script.fetch(2)
    yield script.fetch(3)
    old = script.topic_id("b")
    script.create("b", 1)
    new = script.topic_id("b")
    script.use_topic_id("b", old)
    yield script.fetch(4)
    script.produce("a", 1)
    yield script.fetch(5, [("a", 9, 0)])
    yield script.fetch(6, [("b", 0, 0)], [("a", 9)])
    yield script.fetch(7, forgotten=[("b", 0)])
    yield script.fetch(8, [("b", 0, 0)])
    script.use_topic_id("b", new)
    yield script.fetch(9, [("b", 0, 0)])
    yield script.fetch(0, [("b", 0, 1), ("a", 0, 1)], session_id=0)
    yield script.fetch(1)


SCRIPTS = [
    kinds_of_news,
    epochs_and_ids,
    partitions_that_come_and_go,
    order_of_partitions,
    topics_that_come_and_go,
]


@pytest.mark.parametrize("steps", SCRIPTS)
@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_fetch_sessions_are_as_in_kafka(
    kafka: Asker, tidelog: Asker, steps: Callable[[SessionScript], Iterator[Any]], version: int
) -> None:
    prefix = f"sessions-{version}-{steps.__name__}-"
    sides = [SessionScript(asker, version, prefix) for asker in (kafka, tidelog)]
    for number, (expected, found) in enumerate(zip(*map(steps, sides), strict=True)):
        assert found == expected, f"step {number}"


def test_fetch_session_whose_waiting_request_is_superseded_is_as_in_kafka(
    kafka: Asker, tidelog: Asker, shared_kafka: str, shared_tidelog: str
) -> None:
    answers: list[Any] = []
    for asker, bootstrap in ((kafka, shared_kafka), (tidelog, shared_tidelog)):
        script = SessionScript(asker, 17, "sessions-superseded-")
        opened(script)
        waiting = Asker(bootstrap)
        request = message(apis.FETCH.request_class, script.values(1, (), max_wait_ms=1000))
        waiting.send(framed(apis.FETCH, 17, request))
        second = _next_epoch(script)
        first = script.shown(1, waiting.receive(apis.FETCH, 17))
        waiting.close()
        answers.append((first, second))
    assert answers[1] == answers[0]
    assert answers[1][0] == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, "same", [])


def _next_epoch(script: SessionScript) -> Any:
    """The answer to the request that supersedes the first one, once the broker has that."""
    while True:
        answer = script.fetch(2)
        if answer[0] != ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            return answer
