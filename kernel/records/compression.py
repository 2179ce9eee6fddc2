"""Compression of record batches: the contract of a codec, the codecs of this process, and their use.

The low three bits of a batch's attributes are the id of its codec: 0 none, and in Apache Kafka 1 gzip,
2 snappy, 3 lz4, 4 zstd. All codecs come from plugins (`tidelog_compression_codecs`). They belong to the
process, since batches are decoded in many places: loading plugins registers them, and a process without
plugins, such as one that rewrites segments, registers those that it is sent.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from tidelog.kernel.errors import CorruptBatch, UnsupportedCompression
from tidelog.kernel.records.batch import Buffer

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey

NO_COMPRESSION = "none"
"""The name of codec 0."""
MAX_CODEC_ID = 7
LEAST_MEMORY_BYTES = 512 * 1024
"""Memory for a piece or two, and for the library itself."""
PACKED_PIECE_BYTES = 16 * 1024
"""Size of a piece to compress on the event loop."""
UNPACKED_PIECE_BYTES = 1024 * 1024
"""Size of a piece of records that are not compressed."""


class UnpackedTooLarge(CorruptBatch):
    """The records decompress to more bytes than the caller accepts."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the records unpack to more than {max_bytes} bytes")


class CompressionCodec(ABC):
    """One way to compress the records of a batch.

    It is used in several threads at once, and pickled for other processes: it keeps no state that matters,
    and its class can be imported by name. Both directions work in pieces, so that a batch that unpacks to
    hundreds of megabytes takes little memory. Libraries that are slow to import are imported in the methods.
    """

    id: int
    """The low three bits of a batch's attributes: 1 to 7; Apache Kafka uses 1 to 4."""
    name: str
    """The name that `compression.type` chooses it by."""
    level_key: ConfigKey[int] | None = None
    """The topic key with the level to compress at, None for a codec without levels."""
    library: str = ""
    """The module that its methods import, so that a broker imports it in a thread; empty for none."""

    def packs_quickly(self, level: int | None) -> bool:
        """Return whether compressing 16 KB at `level` takes a fraction of a millisecond.

        Then the event loop may do it; else a thread does.
        """
        del level
        return False

    @abstractmethod
    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate over the compressed form of the records in `pieces`, which need not be whole records.

        `level` is a value of `level_key`; None is the default.
        """

    @abstractmethod
    def unpack(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate over the decompressed records in pieces of some 100 KB.

        The caller counts them and stops beyond `max_bytes`. So the limit only matters to a codec that knows
        the decompressed size before it allocates memory for it.

        Raises:
            UnpackedTooLarge: they decompress to more than `max_bytes`.
            Exception: the bytes are not of this codec, or end early; any error will do.
        """

    def unpack_at_once(self, data: memoryview, most_bytes: int) -> bytes | None:
        """Return all decompressed records, at most `most_bytes`, if one call of the library does it.

        In any other case return None, or raise any error: then `unpack` is called. This saves its steps,
        which take as long as decompressing a few kilobytes.
        """
        del data, most_bytes
        return None

    def pack_v0(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        """Iterate as `pack` does, for a message of format 0, which may have another framing."""
        return self.pack(pieces, level)

    def unpack_v0(self, data: memoryview, max_bytes: int) -> Iterator[bytes]:
        """Iterate as `unpack` does, for a message of format 0, which may have another framing."""
        return self.unpack(data, max_bytes)

    def memory_for(self, data: Buffer) -> int:
        """Return how many bytes of memory `unpack` takes at most, without the pieces it has returned.

        A step of it may take about a millisecond per MB. Where it takes more than 4 MiB, it runs in a thread.
        For bytes that are not of this codec any number may be returned: `unpack` refuses them at once.
        """
        del data
        return LEAST_MEMORY_BYTES


_codecs: dict[int, CompressionCodec] = {}
_imported: set[int] = set()
_offers: list[Callable[[], Iterable[CompressionCodec]]] = []


def offer_codecs(offer: Callable[[], Iterable[CompressionCodec]]) -> None:
    """Let this process use the codecs that `offer` returns, which is called when one is missing.

    They replace no other ones. A process that meets no compressed batch does not import them.
    """
    _offers.append(offer)


@cache
def _offered(offers: tuple[Callable[[], Iterable[CompressionCodec]], ...]) -> dict[int, CompressionCodec]:
    return {codec.id: codec for offer in reversed(offers) for codec in offer()}


def _find_offered(codec_id: int) -> CompressionCodec | None:
    return _offered(tuple(_offers)).get(codec_id)


def register_codecs(codecs: Iterable[CompressionCodec], *, replace: bool = True) -> None:
    """Let this process use `codecs`; one with the id of an earlier one replaces it, or is ignored."""
    for codec in codecs:
        if replace or codec.id not in _codecs:
            _codecs[codec.id] = codec
            # Its library is another one than that of the codec which it replaces.
            _imported.discard(codec.id)


def registered_codecs() -> tuple[CompressionCodec, ...]:
    """Return the codecs of this process in the order of their ids."""
    codecs = {**_offered(tuple(_offers)), **_codecs}
    return tuple(codecs[codec_id] for codec_id in sorted(codecs))


def is_registered(codec_id: int) -> bool:
    """Return whether this process has a codec of that id."""
    return codec_id in _codecs or _find_offered(codec_id) is not None


def codec_of(codec_id: int) -> CompressionCodec:
    """Return the codec of that id.

    Raises:
        UnsupportedCompression: no plugin offers it.
    """
    codec = _codecs.get(codec_id) or _find_offered(codec_id)
    if codec is None:
        installed = ", ".join(f"{each.id} {each.name}" for each in registered_codecs()) or "none"
        raise UnsupportedCompression(f"compression codec {codec_id} is unknown; installed are: {installed}")
    return codec


def is_imported(codec_id: int) -> bool:
    """Return whether the library of that codec is imported, or it needs none, as one that nothing offers."""
    if not codec_id or codec_id in _imported:
        return True
    codec = _codecs.get(codec_id) or _find_offered(codec_id)
    if codec is None:
        # Not noted: one of that id may be registered later.
        return True
    if codec.library:
        module = sys.modules.get(codec.library)
        # While another thread imports it, it is there already.
        if module is None or getattr(module.__spec__, "_initializing", False):
            return False
    _imported.add(codec_id)
    return True


def import_library(codec_id: int) -> None:
    """Import what the codec of that id needs: it takes some milliseconds, which are not for the event loop.

    Raises:
        UnsupportedCompression: no plugin offers it.
    """
    if library := codec_of(codec_id).library:
        import_module(library)


def codec_named(name: str) -> CompressionCodec | None:
    """Return the codec of that name, None without one."""
    return next((codec for codec in registered_codecs() if codec.name == name), None)


def compress(codec_id: int, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Return the compressed records, in the framing that Kafka's readers accept; codec 0 only copies.

    `magic` is the message format that they are in.

    Raises:
        UnsupportedCompression: no such codec.
    """
    if not codec_id:
        return bytes(data)
    codec = codec_of(codec_id)
    return b"".join((codec.pack if magic else codec.pack_v0)((data,), level))


def unpack(codec_id: int, data: Buffer, max_bytes: int, *, magic: int = 2) -> Iterator[bytes]:
    """Iterate over the decompressed records in pieces, whose bounds need not be those of records.

    A caller that iterates holds one piece at a time. `magic` is the message format that they are in.

    Raises:
        UnsupportedCompression: no such codec.
        UnpackedTooLarge: they decompress to more than `max_bytes`.
        CorruptBatch: the bytes are not of that codec.
    """
    codec = codec_of(codec_id)
    left = max_bytes
    try:
        for piece in (codec.unpack if magic else codec.unpack_v0)(memoryview(data), max_bytes):
            # Counted here, whatever the codec does: a plugin must not be able to exceed the limit.
            left -= len(piece)
            if left < 0:
                raise UnpackedTooLarge(max_bytes)
            yield piece
    except CorruptBatch:
        raise
    except Exception as error:  # each library has errors of its own, some derive from Exception alone
        raise CorruptBatch(f"the records are not valid {codec.name}: {error}") from error


def unpack_at_once(codec_id: int, data: Buffer, most_bytes: int) -> bytes | None:
    """Return all decompressed records, None if there are more bytes or that is not known beforehand.

    What is malformed is None, too; `unpack` says why.
    """
    try:
        records = codec_of(codec_id).unpack_at_once(memoryview(data), most_bytes)
    except Exception:  # as in `unpack`, which is called next
        return None
    return None if records is None or len(records) > most_bytes else records


def decompress(codec_id: int, data: Buffer, max_bytes: int) -> bytes:
    """Return all decompressed records; raises as `unpack`."""
    return b"".join(unpack(codec_id, data, max_bytes))


def memory_for(codec_id: int, data: Buffer) -> int:
    """Return how much memory `unpack` takes at most for `data`; see `CompressionCodec.memory_for`.

    For a codec that nothing offers it is any number: `unpack` refuses the data.
    """
    codec = _codecs.get(codec_id) or _find_offered(codec_id)
    return LEAST_MEMORY_BYTES if codec is None else codec.memory_for(data)


def packs_quickly(codec_id: int, level: int | None) -> bool:
    """Return whether compressing 16 KB takes a fraction of a millisecond; codec 0 only copies."""
    codec = _codecs.get(codec_id) or _find_offered(codec_id)
    return not codec_id or (codec is not None and codec.packs_quickly(level))


def steps_of(view: memoryview, size: int) -> Iterator[memoryview]:
    """Iterate in steps of `size`, for libraries that copy the input that they have not consumed."""
    for position in range(0, len(view), size):
        yield view[position : position + size]


def in_pieces(data: Buffer) -> Iterator[bytes]:
    """Iterate over records that are not compressed in pieces, as `unpack` does."""
    for piece in steps_of(memoryview(data), UNPACKED_PIECE_BYTES):
        yield bytes(piece)
