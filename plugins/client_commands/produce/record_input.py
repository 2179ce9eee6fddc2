"""The records of arguments, files and standard input: pieces of bytes, and what each of them means."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Final

import attrs

from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.client_commands.records.encodings import RecordEncoding
from tidelog.plugins.client_commands.records.json_lines import InputRecord, parse_json_line

_STDIN: Final = "-"
MOST_RECORD_BYTES: Final = 256 * 1024 * 1024
"""Of a piece without a delimiter: more is none that a broker takes, and fills the memory."""
_CHUNK_BYTES: Final = 64 * 1024


@attrs.frozen
class Piece:
    """Bytes of a record, and where they are from; `end` is how far the input is read, in bytes."""

    data: bytes
    where: str
    end: int


@attrs.frozen
class InputFormat:
    """How a piece is read.

    Attributes:
        is_json: it is a JSON object, and the other attributes but the encodings are not used
        key_delimiter: what is before its first occurrence is the key, None without keys
        is_empty_null: an empty key or value is null
    """

    key_encoding: RecordEncoding
    value_encoding: RecordEncoding
    is_json: bool = False
    key_delimiter: bytes | None = None
    is_empty_null: bool = False

    def parse(self, data: bytes) -> InputRecord:
        """Return the record of a piece.

        Raises:
            ValueError: it has another form.
        """
        if self.is_json:
            return parse_json_line(data, self.key_encoding, self.value_encoding)
        key, value = None, data
        if self.key_delimiter is not None:
            before, found, after = data.partition(self.key_delimiter)
            if not found:
                raise ValueError(
                    f"it has no key: there is no {self.key_delimiter.decode(errors='replace')!r}"
                )
            key, value = self._encoded("key", self.key_encoding, before), after
        return InputRecord(self._encoded("value", self.value_encoding, value), key)

    def _encoded(self, part: str, encoding: RecordEncoding, given: bytes) -> bytes | None:
        if self.is_empty_null and not given:
            return None
        try:
            return encoding.from_input(given)
        except ValueError as error:
            raise ValueError(f"the {part} is no {encoding.name}: {error}") from None


@attrs.frozen
class RecordInput:
    """Where records come from.

    Attributes:
        pieces: the records
        total_bytes: the size of all, None if it is not known
        is_typed: a person types them
    """

    pieces: Iterable[Piece]
    total_bytes: int | None
    is_typed: bool


def input_of(values: Sequence[str], files: Sequence[Path], delimiter: bytes | None) -> RecordInput:
    """Return the input of arguments, or else of files, `-` and none for standard input.

    Without a delimiter each file is one record.
    """
    if values:
        return RecordInput(_argument_pieces(values), None, is_typed=False)
    paths = files or (Path(_STDIN),)
    is_typed = Path(_STDIN) in paths and sys.stdin.isatty()
    return RecordInput(_file_pieces(paths, delimiter), _total_bytes(paths), is_typed)


def _argument_pieces(values: Sequence[str]) -> Iterator[Piece]:
    for number, value in enumerate(values, 1):
        data = value.encode(errors="surrogateescape")
        yield Piece(data, f"argument {number}", 0)


def _file_pieces(paths: Iterable[Path], delimiter: bytes | None) -> Iterator[Piece]:
    done = 0
    for path in paths:
        with _opened(path) as file:
            name = "standard input" if str(path) == _STDIN else str(path)
            for piece in _pieces(file, name, delimiter, done):
                done = piece.end
                yield piece


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    # Standard input is not closed: it is not the command's own.
    return nullcontext(sys.stdin.buffer) if str(path) == _STDIN else path.open("rb")


def _total_bytes(paths: Iterable[Path]) -> int | None:
    sizes = [path.stat().st_size if path.is_file() else None for path in paths]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _pieces(file: IO[bytes], name: str, delimiter: bytes | None, done: int) -> Iterator[Piece]:
    if delimiter is None:
        data = file.read()
        yield Piece(data, name, done + len(data))
        return
    rest = b""
    number = 0
    # What is there is read, so that a line that is typed is sent at once.
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    while chunk := read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(delimiter)
        for data in whole:
            number += 1
            done += len(data) + len(delimiter)
            yield Piece(data, f"{name}, record {number}", done)
        if len(rest) > MOST_RECORD_BYTES:
            raise CommandFailed(
                f"{name}: record {number + 1} has more than {MOST_RECORD_BYTES} bytes. --delimiter says what "
                "is between records."
            )
    if rest:
        yield Piece(rest, f"{name}, record {number + 1}", done + len(rest))
