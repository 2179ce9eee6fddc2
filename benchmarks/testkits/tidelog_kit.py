"""tidelog in the process of the tests."""

from __future__ import annotations

import tempfile

from tidelog.testing import KafkaServer

from .kit import Kit


class TidelogKit(Kit):
    """One server for each test."""

    title = "tidelog"

    def start(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._server = KafkaServer(directory=self._directory.name)
        self._server.start()
        self.bootstrap = self._server.bootstrap

    def stop(self) -> None:
        self._server.stop()
        self._directory.cleanup()

    def crash(self) -> None:
        self._server.kill()
        self._server.start()

    def pass_time(self, seconds: float) -> None:
        self._server.clock.advance(seconds=seconds)

    def expire(self, topic: str) -> None:
        self._server.expire_now()

    def compact(self, topic: str) -> None:
        self._server.compact_now(topic)

    def refuse_produce(self, times: int) -> None:
        self._server.faults.produce(error="NOT_LEADER_OR_FOLLOWER", times=times)

    def lose_produce_response(self) -> None:
        self._server.faults.produce(drop="response", times=1)

    def delay_produce(self, seconds: float) -> None:
        self._server.faults.produce(delay=seconds, times=1)

    def acks_of_produce(self) -> list[int]:
        return [each.message.acks for each in self._server.requests("Produce")]
