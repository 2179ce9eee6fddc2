"""One fetch session, step by step, with one broker; what it answers, with names in the place of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tests.deadlines import wait_until
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api import Api

from .asking import Asker, message

IDS_SINCE: Final = 13
UNKNOWN: Final = "unknown"
UNKNOWN_ID: Final = b"\x77" * 16
Asked = tuple[str, int, int]
"""Topic, partition and offset."""


class SessionScript:
    """A client of one broker that fetches in a session, in one version of Fetch."""

    def __init__(self, asker: Asker, version: int, prefix: str) -> None:
        """Names of topics begin with `prefix`."""
        self.asker = asker
        self.version = version
        self.session_id = 0
        self._prefix = prefix
        self._ids: dict[str, bytes] = {UNKNOWN: UNKNOWN_ID}

    def name(self, topic: str) -> str:
        """The real name of a topic."""
        return self._prefix + topic

    def create(self, topic: str, partitions: int = 3) -> None:
        """Create a topic, and wait until it can be written to."""
        new = {"name": self.name(topic), "num_partitions": partitions, "replication_factor": 1}
        (created,) = self._ask(apis.CREATE_TOPICS, 7, topics=[new], timeout_ms=30_000).topics
        assert created.error_code == 0
        self._ids[topic] = created.topic_id
        for index in range(partitions):
            wait_until(lambda index=index: self.produce(topic, index) == 0, topic)  # type: ignore[misc]

    def topic_id(self, topic: str) -> bytes:
        """The id by which a topic is asked for."""
        return self._ids[topic]

    def use_topic_id(self, topic: str, topic_id: bytes) -> None:
        """Ask for a topic by another id."""
        self._ids[topic] = topic_id

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it cannot be read."""
        states = [{"name": self.name(topic)}]
        (deleted,) = self._ask(apis.DELETE_TOPICS, 6, topics=states, timeout_ms=30_000).responses
        assert deleted.error_code == 0
        wait_until(lambda: self.produce(topic, 0) != 0, f"the end of {topic}")

    def produce(self, topic: str, index: int, count: int = 1) -> int:
        """Append batches of one record; the error of the last one."""
        code = 0
        for _ in range(count):
            batch = {"index": index, "records": make_batch([b"value"])}
            data = {"name": self.name(topic), "partition_data": [batch]}
            answer = self._ask(apis.PRODUCE, 9, acks=-1, timeout_ms=30_000, topic_data=[data])
            code = answer.responses[0].partition_responses[0].error_code
        return code

    def delete_records(self, topic: str, index: int, offset: int) -> None:
        """Raise the log start."""
        partitions = [{"partition_index": index, "offset": offset}]
        topics = [{"name": self.name(topic), "partitions": partitions}]
        answer = self._ask(apis.DELETE_RECORDS, 2, topics=topics, timeout_ms=30_000)
        assert answer.topics[0].partitions[0].error_code == 0

    def fetch(
        self,
        epoch: int,
        asked: Sequence[Asked] = (),
        forgotten: Sequence[tuple[str, int]] = (),
        *,
        session_id: int | None = None,
        version: int | None = None,
        **fields: Any,
    ) -> Any:
        """The answer to one request: error, whether it has a session, and partitions in order."""
        values = self.values(epoch, asked, forgotten, session_id=session_id, **fields)
        return self.shown(epoch, self._ask(apis.FETCH, version or self.version, **values))

    def values(
        self,
        epoch: int,
        asked: Iterable[Asked],
        forgotten: Iterable[tuple[str, int]] = (),
        *,
        session_id: int | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """A request; `fields` are of the request, but for those of `FetchPartition`."""
        own = {key: fields.pop(key) for key in ("current_leader_epoch",) if key in fields}
        topics = [
            {
                **self._topic(topic),
                "partitions": [
                    {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **own}
                ],
            }
            for topic, index, offset in asked
        ]
        return {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_id": self.session_id if session_id is None else session_id,
            "session_epoch": epoch,
            "topics": topics,
            "forgotten_topics_data": [
                {**self._topic(topic), "partitions": [index]} for topic, index in forgotten
            ],
            **fields,
        }

    def shown(self, epoch: int, answer: Any) -> Any:
        """An answer as tuples; the id of a session that it opened is used from now on.

        Kafka has partitions that are not there at the end, tidelog in full responses where they were asked.
        """
        if epoch == 0 and answer.session_id:
            self.session_id = answer.session_id
        session = {0: "none", self.session_id: "same"}.get(answer.session_id, "other")
        names = {topic_id: name for name, topic_id in self._ids.items()}
        partitions = [
            (
                names.get(topic.topic_id, topic.topic.removeprefix(self._prefix)),
                part.partition_index,
                part.error_code,
                part.high_watermark,
                part.last_stable_offset,
                part.log_start_offset,
                part.aborted_transactions,
                len(part.records or b""),
            )
            for topic in answer.responses
            for part in topic.partitions
        ]
        return answer.error_code, session, partitions if epoch > 0 else sorted(partitions, key=repr)

    def _topic(self, topic: str) -> dict[str, Any]:
        # A version of the other kind than the session's is refused before it matters.
        return {"topic": self.name(topic), "topic_id": self._ids[topic]}

    def _ask(self, api: Api, version: int, **values: Any) -> Any:
        return self.asker.ask(api, version, message(api.request_class, values))
