"""Following a topic: its records as server-sent events, or as messages of a WebSocket.

Nothing is buffered for a peer: the next records are read when the socket has taken those before. So a peer
that stops reading costs what its socket holds, and is ended like any connection on which nothing moves.

Source: HTML standard, "Server-sent events"; RFC 6455.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.formats import record_text
from tidelog.plugins.protocol_http.problems import problem_of

if TYPE_CHECKING:
    from tidelog.plugins.protocol_http.formats import Embedded, FetchedRecord
    from tidelog.plugins.protocol_http.reading import Positions, ReadLimits

SIGN_OF_LIFE_SECONDS: Final = 15.0
"""A peer gets something that often: proxies end connections that are quiet for half a minute or more."""


class EndOfEvents(Exception):
    """There are no further records: the broker stops, or the topic cannot be read."""


class RecordEvents:
    """The records behind some positions, in turns of up to `limits`."""

    def __init__(self, positions: Positions, limits: ReadLimits, embedded: Embedded) -> None:
        self._positions = positions
        self._limits = limits
        self._embedded: Embedded = embedded

    async def next_texts(self) -> list[tuple[FetchedRecord, str]]:
        """Return the next records, each with its JSON; none after `SIGN_OF_LIFE_SECONDS`.

        Raises:
            EndOfEvents: there are no further ones; the text says why.
        """
        try:
            found = await self._positions.read(self._limits, SIGN_OF_LIFE_SECONDS)
        except BrokerError as error:
            raise EndOfEvents(_text(error)) from error
        if not found and self._positions.ended:
            raise EndOfEvents('{"error_code":50003,"message":"the broker stops"}')
        pace = Pace()
        texts: list[tuple[FetchedRecord, str]] = []
        for record in found:
            texts.append((record, record_text(record, self._embedded)))
            await pace.turn()
        # Last: what is cancelled before has sent nothing, and reads the same records again.
        self._positions.advance(found)
        return texts

    def event_id(self) -> str:
        """Return the next offset of each partition, by which a browser continues after a lost connection."""
        return ",".join(f"{partition}:{offset}" for (_, partition), offset in self._positions.next.items())


def _text(error: BrokerError) -> str:
    problem = problem_of(error)
    return json_text.encode_text({"error_code": problem.code, "message": str(problem)})


class ServerSentEvents:
    """Records as `text/event-stream`: each is the data of an event, and its offset is part of the id."""

    def __init__(self, events: RecordEvents) -> None:
        self._events = events
        self._ended = False

    async def next_piece(self) -> bytes | None:
        """Return the next events, or a comment as a sign of life; an event `error` at the end."""
        if self._ended:
            return None
        try:
            texts = await self._events.next_texts()
        except EndOfEvents as end:
            self._ended = True
            return f"event: error\ndata: {end}\n\n".encode()
        if not texts:
            return b":\n\n"
        events = [f"data: {text}\n\n" for _, text in texts]
        # Of the last one, since all of them are sent together.
        events[-1] = f"id: {self._events.event_id()}\n{events[-1]}"
        return "".join(events).encode()


class WebSocketMessages:
    """Records as messages of a WebSocket, one text each; pieces are what `json` lines up, one a line."""

    def __init__(self, events: RecordEvents) -> None:
        self._events = events
        self._ended = False

    async def next_piece(self) -> bytes | None:
        """Return the next messages as lines, nothing as a sign of life; None at the end."""
        if self._ended:
            return None
        try:
            texts = await self._events.next_texts()
        except EndOfEvents as end:
            self._ended = True
            return str(end).encode()
        return "\n".join(text for _, text in texts).encode()
