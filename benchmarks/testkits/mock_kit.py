"""The mock cluster that librdkafka has for its own tests, as `test.mock.num.brokers` starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from confluent_kafka import Producer

from .kit import PATIENCE_S, CannotBeDoneError, Kit

_ONLY_IN_C = "from C, not from Python"


class MockKit(Kit):
    """One cluster for each test."""

    title = "librdkafka's mock"
    lacks: ClassVar[Mapping[str, str]] = {
        "members_share_partitions": "what a member had that leaves is assigned after its session, 45 s",
        "offsets_are_found_by_time": "ListOffsets looks at no timestamps",
        "aborted_records_are_not_read": "aborted records are read",
        "records_are_processed_exactly_once": "offsets of transactions are not committed",
        "an_older_producer_is_fenced": "the older producer can commit",
        "records_are_deleted": "no DeleteRecords",
    }

    def start(self) -> None:
        self._owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
        (broker,) = self._owner.list_topics(timeout=PATIENCE_S).brokers.values()
        self.bootstrap = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        del self._owner

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        if config:
            raise CannotBeDoneError("topics have no configuration")
        # There is no request for it: a topic is there once it is asked for, with four partitions.
        self._owner.list_topics(name, PATIENCE_S)

    def refuse_produce(self, times: int) -> None:
        raise CannotBeDoneError(_ONLY_IN_C)

    def lose_produce_response(self) -> None:
        raise CannotBeDoneError(_ONLY_IN_C)

    def delay_produce(self, seconds: float) -> None:
        raise CannotBeDoneError(_ONLY_IN_C)

    def acks_of_produce(self) -> list[int]:
        raise CannotBeDoneError(_ONLY_IN_C)
