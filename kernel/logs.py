"""The broker's log: standard logging with structured fields, for people or as JSON, and a brake on floods.

A call such as `log.info("listening", extra={"address": "127.0.0.1:9092"})` keeps its fields: the human format
shows them as `address=127.0.0.1:9092`, the JSON format as members of the event's object.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

import attrs

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def set_up_logging(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process from `level` on to `stream` (standard error).

    `auto` is human, with colours if the stream is a terminal.
    """
    target: TextIO = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(JsonFormatter() if log_format == "json" else HumanFormatter(colours=target.isatty()))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The structured fields that were given with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}


class HumanFormatter(logging.Formatter):
    """`2026-03-01 12:00:00.250 INFO  server: listening address=127.0.0.1:9092`, in local time.

    Control characters, which a peer may have sent, are escaped, so that one event cannot look like two.
    """

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """The line of one event; a traceback follows on further lines."""
        moment = datetime.fromtimestamp(record.created)
        stamp = moment.isoformat(" ", "milliseconds")
        fields = "".join(f" {name}={_shown(value)}" for name, value in fields_of(record).items())
        source = record.name.removeprefix("tidelog.").removeprefix("kernel.").removeprefix("plugins.")
        level = f"{record.levelname:<7}"
        if self._colours:
            level = f"{_COLOURS.get(record.levelname, '')}{level}{_PLAIN}"
            stamp, fields = f"{_DIM}{stamp}{_PLAIN}", f"{_DIM}{fields}{_PLAIN}" if fields else ""
        line = f"{stamp} {level} {source}: {_escape(record.getMessage())}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One object per line: `time` (UTC), `level`, `logger`, `message`, `exception` if any, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The object of one event."""
        # Not at the top: the human format does without.
        import json

        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        # The event's own members win over fields of the same name, which would be a slip of the caller.
        return json.dumps({**fields_of(record), **event}, default=str)


def _shown(value: object) -> str:
    text = _escape(str(value))
    return f'"{text}"' if not text or " " in text else text


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


@attrs.define
class _Window:
    """The time of the last event of a key that was let through, and how many were not since then."""

    opened: float
    suppressed: int = 0


class RateLimit:
    """A brake for what a peer can provoke: one event per key and interval, the rest is counted.

    At most `max_keys` keys are told apart at a time. Those beyond share one limit, so that a flood from many
    addresses fills neither the log nor the memory.
    """

    def __init__(
        self, interval_seconds: float, *, max_keys: int = 1000, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval_seconds
        self._max_keys = max_keys
        self._now = now
        self._windows: dict[str | None, _Window] = {}
        self._swept = now()

    def admit(self, key: str) -> int | None:
        """None: keep quiet. A number: log it, and say that so many of the key were not logged before it."""
        now = self._now()
        window = self._window(key, now)
        if window is None:
            return 0
        if now - window.opened < self._interval:
            window.suppressed += 1
            return None
        suppressed, window.suppressed, window.opened = window.suppressed, 0, now
        return suppressed

    def _window(self, key: str | None, now: float) -> _Window | None:
        """The window of `key`, None if it was only just made."""
        if key not in self._windows and len(self._windows) >= self._max_keys:
            self._forget_quiet_keys(now)
            if len(self._windows) >= self._max_keys:
                key = _EVERYONE_ELSE
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now)
        return window

    def _forget_quiet_keys(self, now: float) -> None:
        # Once per interval: a sweep per event would itself be a way to keep the broker busy.
        if now - self._swept < self._interval:
            return
        self._swept = now
        self._windows = {
            key: window for key, window in self._windows.items() if now - window.opened < self._interval
        }


_EVERYONE_ELSE = None
