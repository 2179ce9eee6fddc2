"""A client that fetches in sessions, for the tests of the Fetch handler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.fetch import FetchRequest, ForgottenTopic, PartitionData

from .client import Client, Step
from .test_fetch import fetch

IDS_SINCE = 13


class SessionClient:
    """One session of a client; `epoch` is that of its next request."""

    def __init__(self, client: Client, topic: Topic, version: int = 17) -> None:
        self.client = client
        self.topic = topic
        self.version = version
        self.session_id = self.epoch = 0

    def request(
        self, offsets: Mapping[int, int] | None = None, forgotten: Sequence[int] = (), **fields: Any
    ) -> FetchRequest:
        """The next request, which names partitions by number, with their offsets."""
        request = fetch(self.topic, offsets or {}, session=(self.session_id, self.epoch), **fields)
        if not offsets:
            request.topics = []
        if forgotten:
            request.forgotten_topics_data = [
                ForgottenTopic(
                    topic=self.topic.name, topic_id=self.topic.topic_id.bytes, partitions=[*forgotten]
                )
            ]
        return request

    def start(
        self, offsets: Mapping[int, int] | None = None, forgotten: Sequence[int] = (), **fields: Any
    ) -> Step:
        """The step that serves the next request, not awaited yet."""
        step = self.client.start(FETCH, self.version, self.request(offsets, forgotten, **fields))
        self.epoch += 1
        return step

    async def finish(self, step: Step) -> Any:
        """The answer that a step leads to."""
        answer = await self.client.finish(FETCH, self.version, step)
        if self.epoch == 1:
            self.session_id = answer.session_id
        return answer

    async def ask(
        self, offsets: Mapping[int, int] | None = None, forgotten: Sequence[int] = (), **fields: Any
    ) -> Any:
        """The answer to the next request."""
        return await self.finish(self.start(offsets, forgotten, **fields))

    async def news(
        self, offsets: Mapping[int, int] | None = None, forgotten: Sequence[int] = (), **fields: Any
    ) -> dict[int, PartitionData]:
        """The partitions in the answer to the next request, which has no error."""
        answer = await self.ask(offsets, forgotten, **fields)
        assert (answer.error_code, answer.session_id) == (0, self.session_id)
        return {part.partition_index: part for topic in answer.responses for part in topic.partitions}
