"""The suite of transports: those that ship pass it, and it finds each wrong one."""

from __future__ import annotations

import inspect
import socket
import time
from contextlib import suppress
from types import ModuleType
from typing import Any, ClassVar

import pytest
import trio

from tests.tables import for_each
from tidelog.kernel.config import Config
from tidelog.kernel.network.transport import PlainListeners, PlainTransport
from tidelog.kernel.seams.transport import ListenerTransport
from tidelog.kernel.seams.wire import Peer
from tidelog.kernel.testing.transports import TransportConformance as Suite
from tidelog.plugins.tls import plugin as tls
from tidelog.plugins.tls.conformance import TlsConformance


def plugin_of(offered: object) -> ModuleType:
    plugin: Any = ModuleType("proven_transport")
    plugin.tidelog_transports = lambda: [offered]
    return plugin  # type: ignore[no-any-return]


class TestPlain(Suite, plugin=plugin_of(PlainListeners())): ...


class TestTls(TlsConformance, plugin=tls): ...


class Right(PlainTransport):
    """A right transport, without slots."""


class LosesTheLastByte(Right):
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer)
        return count - 1 if count > 10 else count


class SwapsBytes(Right):
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer)
        view = memoryview(buffer)
        if count > 2:
            view[0], view[1] = view[1], view[0]
        return count


class ReceivesBeyondTheBuffer(Right):
    """Takes in more than there is room for, and says nothing of it."""

    rest = b""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        some = self.rest or self.recv(65_536)
        count = min(len(some), len(memoryview(buffer)))
        memoryview(buffer)[:count] = some[:count]
        self.rest = some[count:]
        return count


class EndsWithoutBytes(Right):
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer)
        except BlockingIOError:
            return 0


class WaitsInReceive(Right):
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        try:
            return super().recv_into(buffer)
        except BlockingIOError:
            time.sleep(0.3)
            raise


class ClaimsToHaveSentAll(Right):
    def send(self, data: Any, flags: int = 0, /) -> int:
        with suppress(BlockingIOError):
            super().send(data, flags)
        return len(data)


class SendsTwice(Right):
    def send(self, data: Any, flags: int = 0, /) -> int:
        super().send(bytes(data)[:1], flags)
        return super().send(data, flags)


class KnowsNoFlags(Right):
    def send(self, data: Any, flags: int = 0, /) -> int:
        if flags:
            raise ValueError(f"what is {flags}?")
        return super().send(data)


class SendsFilesFromTheirBegin(Right):
    def send_region(self, file: int, position: int, most: int) -> int | None:
        return super().send_region(file, 0, most)


class SendsTheWholeFile(Right):
    def send_region(self, file: int, position: int, most: int) -> int | None:
        return super().send_region(file, position, 10**9)


class NoticesNoEnd(Right):
    def has_left(self) -> bool:
        return False


class TakesAllForGone(Right):
    def has_left(self) -> bool:
        return True


class LeavesTheSocketOpen(Right):
    left: ClassVar[list[LeavesTheSocketOpen]] = []

    def close(self) -> None:
        self.left.append(self)


class HasNoDescriptor(Right):
    def fileno(self) -> int:
        return -1


class ShutsNothingDown(Right):
    def shutdown(self, how: int, /) -> None:
        """Do nothing."""


class HasNoPrincipal(Right):
    principal: Any = "alice"


class SharesWhatItReceives(Right):
    """All connections have one buffer."""

    received = bytearray()

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        try:
            self.received.extend(self.recv(65_536))
        except BlockingIOError:
            if not self.received:
                raise
        count = min(len(self.received), len(memoryview(buffer)))
        memoryview(buffer)[:count] = self.received[:count]
        del self.received[:count]
        return count


class Listeners:
    name = "PROVEN"

    def __init__(self, kind: type[Right]) -> None:
        self.kind = kind

    def create(self, config: Config, listener: str) -> ListenerTransport:
        return self

    def accept(self, accepted: socket.socket, peer: Peer) -> PlainTransport:
        return self.kind.of(accepted)

    async def run(self) -> None:
        await trio.lowlevel.checkpoint()

    def follow(self, config: Config) -> None: ...

    def check(self, config: Config) -> None: ...


class Lowercase(Listeners):
    name = "proven"


class CannotFollow(Listeners):
    def follow(self, config: Config) -> None:
        raise NotImplementedError


class RunsInAThread(Listeners):
    async def run(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.5)


def suite_of(offered: Listeners) -> Any:
    return type("Proven", (Suite,), {}, plugin=plugin_of(offered))()


async def prove(offered: Listeners, name: str) -> None:
    done = getattr(suite_of(offered), name)()
    if inspect.isawaitable(done):
        await done


WRONG: dict[type[Any], str] = {
    LosesTheLastByte: "test_bytes_arrive_as_they_were_sent",
    SwapsBytes: "test_bytes_arrive_as_they_were_sent",
    SendsTwice: "test_bytes_arrive_as_they_were_sent",
    ReceivesBeyondTheBuffer: "test_what_was_received_makes_it_readable_or_is_held",
    EndsWithoutBytes: "test_without_bytes_receiving_blocks_neither_the_loop_nor_ends",
    WaitsInReceive: "test_without_bytes_receiving_blocks_neither_the_loop_nor_ends",
    ClaimsToHaveSentAll: "test_a_peer_that_reads_nothing_blocks_no_loop_and_loses_nothing",
    KnowsNoFlags: "test_more_may_follow_what_is_sent",
    SendsFilesFromTheirBegin: "test_files_are_sent_from_any_position",
    SendsTheWholeFile: "test_files_are_sent_from_any_position",
    NoticesNoEnd: "test_the_end_of_the_peer_is_seen_after_its_last_bytes",
    TakesAllForGone: "test_the_end_of_the_peer_is_seen_after_its_last_bytes",
    LeavesTheSocketOpen: "test_close_ends_the_connection_of_the_peer",
    HasNoDescriptor: "test_close_ends_the_connection_of_the_peer",
    ShutsNothingDown: "test_shutdown_wakes_a_task_that_waits",
    HasNoPrincipal: "test_unsent_bytes_and_principal_are_known",
    SharesWhatItReceives: "test_connections_know_nothing_of_each_other",
    Lowercase: "test_name_is_that_of_a_security_protocol",
    CannotFollow: "test_check_and_follow_take_the_configuration_that_it_was_made_with",
    RunsInAThread: "test_run_ends_when_it_is_cancelled",
}


FOUND = (
    AssertionError,
    pytest.fail.Exception,
    BaseExceptionGroup,
    trio.TooSlowError,
    NotImplementedError,
    ValueError,
    OSError,
)
"""What fails a test."""


@for_each("wrong", list(WRONG), ids=lambda wrong: wrong.__name__)
async def test_transport_conformance_finds_a_wrong_one(
    wrong: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = WRONG[wrong]
    await prove(Listeners(Right), name)
    # What never ends is given up soon.
    monkeypatch.setattr("tidelog.kernel.testing.transports.MOST_SECONDS", 0.4)
    offered = wrong(Right) if issubclass(wrong, Listeners) else Listeners(wrong)
    with pytest.raises(FOUND):
        await prove(offered, name)
    monkeypatch.undo()
    while LeavesTheSocketOpen.left:
        PlainTransport.close(LeavesTheSocketOpen.left.pop())
