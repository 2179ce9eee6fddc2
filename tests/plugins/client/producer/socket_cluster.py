"""The brokers of `FakeCluster` behind sockets, for producers with real drivers; they fail as a test wants."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from tests.deadlines import DEADLINE_S
from tests.plugins.client.fakes import metadata_message
from tests.plugins.client.manual_driver import Closed
from tests.plugins.client.producer.fake_cluster import TOPIC, FakeCluster, FakeNode
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataResponse
from tidelog.plugins.protocol_kafka.messages.produce import ProduceNodeEndpoint

LOOPBACK = "127.0.0.1"


class SocketCluster(FakeCluster):
    """Two brokers with a thread for each connection.

    Beside the faults of `FakeCluster` there are "cut" (the connection ends within the answer), "garbage" (the
    answer is none), "late" (the answer comes after the next request, which is sent again) and "vanish" (the
    broker is gone for good, and the other one leads).
    """

    def __init__(self, partitions: int = 1, faults: Iterable[str] = ()) -> None:
        super().__init__(partitions, [])
        self.lies = False
        """Whether the leaders that metadata names refuse to be it."""
        self._wire_faults = iter(faults)
        self._fault = ""
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listeners = {node: socket.create_server((LOOPBACK, 0)) for node in (1, 2)}
        self.places = {
            node: Address(LOOPBACK, listener.getsockname()[1]) for node, listener in self._listeners.items()
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(str(place) for place in self.places.values())

    def __enter__(self) -> Self:
        for node in self._listeners:
            self._start(self._listen, node)
        return self

    def __exit__(self, *_error: object) -> None:
        self._asked.set()
        for node in (1, 2):
            self._vanish(node)
        for each in self._sockets:
            _shut(each)
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for each in self._sockets:
            each.close()
        self.driver.close()

    def metadata(self, request: object) -> MetadataResponse:
        answer = super().metadata(request)
        leaders = {TOPIC: [part.leader for part in self.partitions]}
        answer.brokers = metadata_message(leaders, brokers=self.places).brokers
        return answer

    def produce(self, node: int, request: Any) -> Any:
        self._asked.set()
        self._fault = next(self._wire_faults, "")
        if self._fault in ("drop", "lose", "silent", "move", "hint", "refuse", "timeout", "throttle"):
            self.faults = iter([self._fault])
        if self._fault == "late":
            self._asked.clear()
        if self._fault == "vanish":
            for part in self.partitions:
                self.move(part)
            self._vanish(node)
            raise Closed
        answer = super().produce(3 - node if self.lies else node, request)
        answer.node_endpoints = [
            ProduceNodeEndpoint(
                node_id=each.node_id,
                host=self.places[each.node_id].host,
                port=self.places[each.node_id].port,
            )
            for each in answer.node_endpoints
        ]
        return answer

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _vanish(self, node: int) -> None:
        _shut(self._listeners[node])
        self._listeners[node].close()

    def _listen(self, node: int) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listeners[node].accept()
                self._sockets.append(connection)
                self._start(self._serve, node, connection)

    def _answer(self, broker: FakeNode, frame: bytes) -> tuple[bytes, str]:
        with self._lock:
            self._fault = ""
            answer = broker.receive(frame)
            return answer, self._fault

    def _serve(self, node: int, connection: socket.socket) -> None:
        broker = FakeNode(self, node)
        with suppress(OSError, Closed):
            while frame := _frame(connection):
                answer, fault = self._answer(broker, frame)
                while not answer and connection.recv(1 << 16):
                    # Answers are in the order of requests: those after it have none either.
                    pass
                if fault == "late":
                    self._asked.wait(DEADLINE_S)
                if fault == "garbage":
                    answer = b"\x7f" * 64
                if fault == "cut":
                    answer = answer[: len(answer) // 2]
                connection.sendall(answer)
                if fault == "cut":
                    break
        _shut(connection)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def _frame(connection: socket.socket) -> bytes:
    """One request with its length; empty when the client has hung up."""
    head = connection.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    (size,) = struct.unpack(">i", head)
    return head + connection.recv(size, socket.MSG_WAITALL)
