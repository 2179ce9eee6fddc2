"""Frames of a connection: decoded, handled by a broker in memory, answered; without a socket.

An input is what follows the length of a frame. Some frames change what the broker holds, so it is replaced by
a new one every now and then, and a finding may need what was sent before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from tests.bad_input.raw_client import RawClient
from tests.bad_input.requests import ask
from tests.bad_input.samples import sample, served_versions
from tests.fuzzing.target import Complaints
from tests.plugins.protocol_kafka.apis.client import Client
from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.wire import ProtocolViolation, StreamedBytes
from tidelog.kernel.testing.broker import broker_in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from tidelog.kernel.seams.wire import Parts
    from tidelog.kernel.testing.broker import ThreadedBroker

_FRAMES_PER_BROKER = 500
_MOST_BYTES = 1 << 20
# Long polls are cancelled, as when the client leaves.
_LONGEST_WAIT_S = 0.02
_SETTINGS = {"group.initial.rebalance.delay.ms": 0, "log.message.timestamp.type": "LogAppendTime"}


class Frames:
    """A broker in a thread with a topic, and a new connection for each input."""

    def __init__(self) -> None:
        self._complaints = Complaints()
        self._frames = 0
        self._running: AbstractContextManager[ThreadedBroker] | None = None
        self._broker: ThreadedBroker
        self._seeds: list[bytes] = []

    def __enter__(self) -> Frames:
        self._complaints.__enter__()
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._complaints.__exit__(None, None, None)

    def seeds(self) -> Sequence[bytes]:
        """Return a good request of every API in every version."""
        return self._seeds

    def run(self, data: bytes) -> None:
        """Serve it as the server would."""
        if len(data) > _MOST_BYTES:
            return
        trio.from_thread.run(self._serve, len(data).to_bytes(4) + data, trio_token=self._broker.token)
        self._complaints.raise_first()
        self._frames += 1
        if self._frames % _FRAMES_PER_BROKER == 0:
            self._stop()
            self._start()

    async def _serve(self, frame: bytes) -> None:
        client = Client(self._broker.broker)
        try:
            client.receive(frame)
            step = client.wire.next_step()
            if step is not None and not isinstance(step, list):
                step = await self._within_time(step)
            for part in step or []:
                assert not isinstance(part, FileRegion)
                if isinstance(part, StreamedBytes):
                    left = part.size
                    while left > 0:
                        left -= len(await part.next_piece())
                else:
                    assert len(part) >= 0
        except ProtocolViolation:
            return
        finally:
            client.wire.close()

    @staticmethod
    async def _within_time(step: Awaitable[Parts]) -> Parts | None:
        with trio.move_on_after(_LONGEST_WAIT_S):
            return await step
        return None

    def _start(self) -> None:
        self._running = broker_in_thread(_SETTINGS)
        self._broker = self._running.__enter__()
        client = RawClient(self._broker.bootstrap, "fuzz")
        self._seeds = [
            _payload(ask(api, version, sample(client, api, version)).data)
            for api, version in served_versions()
        ]
        client.close()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None


def _payload(frame: Any) -> bytes:
    return bytes(frame[4:])
