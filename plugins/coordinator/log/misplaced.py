"""Records that are in another partition than the one their name hashes to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tidelog.plugins.coordinator.log.batches import LoadedBatch
from tidelog.plugins.coordinator.log.log_image import LogImage

TYPE_BYTES: Final = 2
_LENGTH_BYTES: Final = 2
_NO_HEAD: Final = b"\xff"
"""A length that no name has begins with this byte."""


def name_head(key: bytes) -> bytes:
    """Return the name in a key of either log, behind its type: int16 length, then UTF-8.

    Raises:
        IndexError: the key is too short to have one.
    """
    return key[TYPE_BYTES : TYPE_BYTES + _LENGTH_BYTES + (key[TYPE_BYTES] << 8 | key[TYPE_BYTES + 1])]


def name_in(key: bytes) -> str:
    """Return the same as text.

    Raises:
        IndexError, UnicodeDecodeError: the key is malformed.
    """
    return str(name_head(key)[_LENGTH_BYTES:], "utf-8")


class SelectedRecords:
    """Separates the records of selected names from the batches of one partition, and collects their image."""

    def __init__(self, key_types: Collection[bytes], selects: Callable[[str], bool]) -> None:
        """Select records with one of `key_types` whose name `selects` accepts; it is called once per name."""
        self.image = LogImage()
        self._key_types = key_types
        self._selects = selects
        self._selected: dict[bytes, bool] = {}
        self._last_other = _NO_HEAD

    def divert(self, batch: LoadedBatch) -> LoadedBatch:
        """Return the batch without the selected records, and apply these to the image."""
        if batch.marker is not None:
            self.image.apply(batch)
            return batch
        records = batch.records
        if not records:
            return batch
        if not self._is_selected(records[0][0]):
            # Nearly always all records of a batch have one name, which belongs here.
            head = self._last_other
            if not [key for key, _ in records if not key.startswith(head, TYPE_BYTES)]:
                return batch
        taken = [index for index, (key, _) in enumerate(records) if self._is_selected(key)]
        return self._split(batch, taken) if taken else batch

    def _is_selected(self, key: bytes) -> bool:
        if key.startswith(self._last_other, TYPE_BYTES):
            return False
        try:
            head = name_head(key)
            selected = self._selected.get(head)
            if selected is None:
                selected = self._selected[head] = self._selects(name_in(key))
        except (IndexError, UnicodeDecodeError):
            return False
        if not selected:
            self._last_other = head
        return selected and key[:TYPE_BYTES] in self._key_types

    def _split(self, batch: LoadedBatch, taken: Sequence[int]) -> LoadedBatch:
        going = frozenset(taken)
        self.image.apply(_only(batch, taken))
        return _only(batch, [index for index in range(len(batch.records)) if index not in going])


def _only(batch: LoadedBatch, indexes: Sequence[int]) -> LoadedBatch:
    return batch._replace(
        records=[batch.records[index] for index in indexes],
        offsets=[batch.offset_of(index) for index in indexes],
    )
