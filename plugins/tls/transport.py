"""TLS as the transport of a connection.

OpenSSL reads and writes the socket itself, a record at a time and without a copy in Python. What a connection
holds beside the socket is a record of at most 16 KB for each direction, and none while it idles (OpenSSL
frees these buffers).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Final, cast

from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.transport import TcpSocket
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.tls.failures import failure_in_words
from tidelog.plugins.tls.long_reads import TICK_S, LongReads

PIECE_BYTES: Final = 256 * 1024
"""Most bytes that are encrypted in one call: about 0.1 ms, after which other connections are served."""
RECORDS_AT_ONCE: Final = 64
"""Most records that one call decrypts. They may have a byte each, and each costs as much as a request."""
_TOO_LONG: Final = f"its key updates or attempts to renegotiate took {TICK_S:g} s, without a request between"
_UNREAD: Final = "it updates keys or renegotiates, and does not read the answers"
_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class TlsTransport(TcpSocket, ssl.SSLSocket):
    """A socket whose bytes are encrypted; `TlsListener` does the handshake."""

    sends_files: bool = False
    reads: LongReads

    def accepted(self, principal: Principal, reads: LongReads) -> None:
        """Note who the peer has proven to be, and by what reads are bounded."""
        self.principal = principal
        self.reads = reads

    def recv_into(  # type: ignore[override]
        self, buffer: bytearray | memoryview, nbytes: int | None = None, flags: int = 0, /
    ) -> int:
        """Receive and decrypt what has arrived."""
        try:
            self.reads.begin(self)
            return self._decrypt(memoryview(buffer))
        except OSError:
            if self.reads.has_cut(self):
                raise ProtocolViolation(_TOO_LONG) from None
            raise
        finally:
            self.reads.end()

    def _decrypt(self, view: memoryview) -> int:
        size, received = len(view), 0
        try:
            for _ in range(RECORDS_AT_ONCE):
                count = cast("int", self.read(size - received, view[received:]))
                received += count
                if not count or received == size:
                    break
        except ssl.SSLWantReadError:
            if not received:
                self.holds_bytes = False
                raise BlockingIOError from None
        except ssl.SSLWantWriteError:
            # Without space for its answer OpenSSL reads nothing, and the socket stays readable.
            if not received:
                raise ProtocolViolation(_UNREAD) from None
        except ssl.SSLError as error:
            # What came before is served first; the next call finds the error again.
            if not received:
                raise ProtocolViolation(failure_in_words(error)) from error
        # A record is decrypted as a whole: what the buffer had no space for is no longer in the socket.
        self.holds_bytes = self.pending() > 0
        return received

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:  # type: ignore[override]
        """Encrypt and send what can be sent at once."""
        # After a refusal OpenSSL has to get the same bytes once more, at least as many: callers send the rest
        # of what they have, in order.
        view = memoryview(data)
        size, sent = min(len(view), PIECE_BYTES), 0
        try:
            while sent < size:
                sent += self.write(view[sent:])
        except _NOT_NOW:
            if not sent:
                raise BlockingIOError from None
        except ssl.SSLError as error:
            raise BrokenPipeError(failure_in_words(error)) from error
        return sent

    def send_region(self, file: int, position: int, most: int) -> int | None:
        """Never called: the bytes of files are encrypted on their way."""
        raise NotImplementedError

    def shutdown(self, how: int) -> None:
        """End one direction or both of the TCP connection; what has arrived can still be answered."""
        # That of `SSLSocket` would continue without encryption.
        socket.socket.shutdown(self, how)

    def drop_tls(self) -> None:
        """Free what OpenSSL holds, and end the direction to the peer; what it sends can still be received."""
        ssl.SSLSocket.shutdown(self, socket.SHUT_WR)

    def close(self) -> None:
        """Send the end (close_notify), as far as the socket takes it, and close."""
        with contextlib.suppress(OSError, ValueError):
            self.unwrap()
        super().close()
