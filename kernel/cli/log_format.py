"""The log of `tidelog serve`: standard logging with structured fields, for people or as JSON.

A call such as `log.info("listening", extra={"address": "127.0.0.1:9092"})` keeps its fields: the human format
shows them as `address=127.0.0.1:9092`, the JSON format as members of the event's object.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.kernel.errors import ConfigError

if TYPE_CHECKING:
    from io import TextIOWrapper

_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"DEBUG": "\x1b[2m", "WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[31;1m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def set_up_logging(log_format: str, level: str, file: str | None = None) -> None:
    """Write everything that is logged in this process at `level` or above to `file`, or to standard error.

    `auto` is human, with colours if standard error is a terminal.

    Raises:
        ConfigError: the file cannot be written.
    """
    handler = logging.StreamHandler(sys.stderr) if file is None else _file_handler(file)
    colours = file is None and sys.stderr.isatty()
    handler.setFormatter(JsonFormatter() if log_format == "json" else HumanFormatter(colours=colours))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _file_handler(file: str) -> logging.StreamHandler[TextIOWrapper]:
    # Not at the top: it imports sockets and queues.
    from tidelog.kernel.cli.log_file import WatchedLogFile

    try:
        return WatchedLogFile(Path(file), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"log.file = {file!r} cannot be written: {error.strerror}. Its directory has to exist, and "
            "this user has to be able to write there."
        ) from error


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the structured fields that were given with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_ATTRIBUTES}


class HumanFormatter(logging.Formatter):
    """`2026-03-01 12:00:00.250 INFO  server: listening address=127.0.0.1:9092`, in local time.

    Control characters, which a peer may have sent, are escaped, so that one event cannot look like two.
    """

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Format one event as a line; a traceback follows on further lines."""
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
        """Format one event as a JSON object."""
        # Not at the top: the human format does not need it.
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
        # The event's own members take precedence over fields of the same name.
        return json.dumps({**fields_of(record), **event}, default=str)


def _shown(value: object) -> str:
    text = _escape(str(value))
    return f'"{text}"' if not text or " " in text else text


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
