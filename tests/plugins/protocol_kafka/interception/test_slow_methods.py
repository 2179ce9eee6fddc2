"""Methods of interceptors that hold the event loop."""

from __future__ import annotations

import logging

import pytest

from tests.plugins.protocol_kafka.apis.client import Client
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tests.plugins.protocol_kafka.interception.produced import TOPIC, send
from tests.plugins.protocol_kafka.interception.scripted import intercepting_broker
from tidelog.kernel.request import interception, policies
from tidelog.kernel.seams.interceptors import BatchInfo, Change, FetchInfo, Interceptor
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic


class BeforeAppend(Interceptor):
    def before_append(self, batch: BatchInfo) -> str | None:
        return None


class AfterAppend(Interceptor):
    def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
        pass


class BeforeFetch(Interceptor):
    def before_fetch(self, fetch: FetchInfo) -> bool:
        return False


class BeforeChange(Interceptor):
    def before_change(self, change: Change) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (BeforeAppend, "before_append"),
        (AfterAppend, "after_append"),
        (BeforeFetch, "before_fetch"),
        (BeforeChange, "before_change"),
    ],
)
@pytest.mark.parametrize(("most_s", "expected"), [(-1.0, 1), (60.0, 0)], ids=["slow", "quick"])
async def test_each_method_on_the_loop_that_takes_long_is_logged(
    kind: type[Interceptor],
    method: str,
    most_s: float,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for module in (interception, policies):
        monkeypatch.setattr(module, "SLOW_SECONDS", most_s)
    caplog.set_level(logging.ERROR)
    async with intercepting_broker(it=kind()) as broker:
        await new_topic(broker)
        await send(broker, make_batch([b"a"]))
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchTopic(topic=TOPIC, partitions=[asked])]
        await Client(broker).ask(
            FETCH, 12, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=topics)
        )
    lines = [each.message for each in caplog.records if "held the event loop" in each.message]
    assert [line.endswith(f" ms in {method}") for line in lines] == [True] * expected
    assert all(line.startswith("the interceptor it held the event loop for ") for line in lines)
