"""Indexes."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_TESTS = "plugins/storage_file"

REMOVALS: Final = (
    Removal(
        "`.index`: 8 bytes, relative offset and position, strictly increasing",
        f"{_FILE}/indexes/offset_index.py",
        "_pack_into(self._map, entries * 8, offset - self.base_offset, position)",
        "_pack_into(self._map, entries * 8, offset, position)",
        f"{_TESTS}/indexes/test_offset_index.py::test_append_stores_eight_byte_entries_relative_to_the_base_offset",
    ),
    Removal(
        "`.timeindex`: 12 bytes, (T, O): the largest timestamp up to offset O is T; monotonic",
        f"{_FILE}/indexes/time_index.py",
        "if timestamp > self.last_timestamp:\n            entries",
        "if True:\n            entries",
        f"{_TESTS}/indexes/test_time_index.py::test_append_ignores_a_timestamp_that_is_not_larger",
    ),
    Removal(
        "`.timeindex`: 12 bytes, (T, O): the largest timestamp up to offset O is T; monotonic",
        f"{_FILE}/segments/segment.py",
        "full = self.index.append(last_offset, position, self.max_timestamp, self.max_timestamp_offset)",
        "full = self.index.append(last_offset, position, max_timestamp, last_offset)",
        f"{_TESTS}/test_layout.py::test_append_adds_the_same_index_entries_as_apache_kafka",
    ),
    Removal(
        "The time index reserves its last slot for the segment's largest timestamp",
        f"{_FILE}/indexes/time_index.py",
        "return self.entries >= self.max_entries - 1",
        "return self.entries >= self.max_entries",
        f"{_TESTS}/indexes/test_time_index.py::test_append_last_uses_the_slot_reserved_for_the_largest_timestamp",
    ),
    Removal(
        "`.txnindex`: 34 bytes, created with the first aborted transaction, not mapped",
        f"{_FILE}/indexes/transaction_index.py",
        'ENTRY = Struct(">hqqqq")',
        'ENTRY = Struct("<hqqqq")',
        f"{_TESTS}/indexes/test_transaction_index.py::test_transaction_index_bytes",
    ),
    Removal(
        "`.txnindex`: 34 bytes, created with the first aborted transaction, not mapped",
        f"{_FILE}/segments/creation.py",
        "        return log, index_format.create(place, settings.index_bytes)",
        '        disk.write_file(place.path(".txnindex"), b"", durable=False)\n'
        "        return log, index_format.create(place, settings.index_bytes)",
        f"{_TESTS}/indexes/test_transaction_index.py::test_transaction_index_has_no_file_until_something_is_aborted",
    ),
    Removal(
        "Indexes are pre-allocated to `segment.index.bytes`, rounded down to whole entries, and trimmed",
        f"{_FILE}/indexes/mapped_index.py",
        "capacity = max(self.max_entries, self.entries + 1) * size",
        "capacity = (self.entries + PAGE_BYTES // size) * size",
        f"{_TESTS}/indexes/test_offset_index.py::test_offset_index_file_has_its_full_size_until_trim",
    ),
    Removal(
        "Indexes are pre-allocated to `segment.index.bytes`, rounded down to whole entries, and trimmed",
        f"{_FILE}/indexes/mapped_index.py",
        "self.entries = entries\n        self.max_entries = max_bytes // self.ENTRY.size",
        "self.entries = entries\n        self.max_entries = -(-max_bytes // self.ENTRY.size)",
        f"{_TESTS}/indexes/test_offset_index.py::test_offset_index_rounds_an_odd_maximum_size_down_to_whole_entries",
    ),
    Removal(
        "Indexes are pre-allocated to `segment.index.bytes`, rounded down to whole entries, and trimmed",
        f"{_FILE}/indexes/mapped_index.py",
        "disk.ftruncate(fd, self.entries * self.ENTRY.size)",
        "pass",
        f"{_TESTS}/indexes/test_offset_index.py::test_append_stores_eight_byte_entries_relative_to_the_base_offset",
    ),
    Removal(
        "Lazy: an index is mapped at its first lookup, and unmapped when idle",
        f"{_FILE}/indexes/sparse_index.py",
        "index.check(log_bytes)\n        return index",
        "index.check(log_bytes)\n        index._offsets.load()\n        return index",
        f"{_TESTS}/test_idle.py::test_open_partitions_maps_no_index_before_its_first_lookup",
    ),
    Removal(
        "Lazy: an index is mapped at its first lookup, and unmapped when idle",
        f"{_FILE}/segments/segment.py",
        "self._writer = self.log = None\n        self.index.release()",
        "self._writer = self.log = None",
        f"{_TESTS}/test_idle.py::test_partitions_that_fell_idle_let_their_descriptors_go",
    ),
    Removal(
        "Warm section: the last 8192 bytes are searched first",
        f"{_FILE}/indexes/mapped_index.py",
        "WARM_BYTES = 8192",
        "WARM_BYTES = 1 << 40",
        f"{_TESTS}/indexes/test_offset_index.py::test_floor_position_near_the_end_reads_the_warm_section_only",
    ),
    Removal(
        "No checksums: a missing or malformed index is rebuilt from the log",
        f"{_FILE}/indexes/sparse_index.py",
        "if size % kind.ENTRY.size:",
        "if size < 0:",
        f"{_TESTS}/recovery/test_segment_recovery.py::test_log_loader_rebuilds_indexes_entry_for_entry",
    ),
    Removal(
        "No checksums: a missing or malformed index is rebuilt from the log",
        f"{_FILE}/indexes/sparse_index.py",
        'raise IndexUnusable(f"{path} is missing") from None',
        "return 0",
        f"{_TESTS}/recovery/test_segment_recovery.py::test_log_loader_recreates_a_missing_index_that_had_no_entries",
    ),
    Removal(
        "No checksums: a missing or malformed index is rebuilt from the log",
        f"{_FILE}/recovery/log_loader.py",
        "            _check_empty_index(segment)\n",
        "",
        f"{_TESTS}/recovery/test_segment_recovery.py::test_log_loader_rebuilds_an_empty_index_after_a_clean_stop_without_a_warning",
    ),
    Removal(
        "Unmapped explicitly and not by the garbage collector; pages, not heap",
        f"{_FILE}/indexes/mapped_index.py",
        "mapped = disk.map_writable(fd, capacity)",
        "mapped = disk.map_writable(fd, capacity)\n"
        '                globals().setdefault("_kept", []).append(mapped)',
        f"{_TESTS}/test_idle.py::test_partitions_that_fell_idle_let_their_descriptors_go",
    ),
    Removal(
        "A full disk cannot kill the process by a mapped index (SIGBUS): blocks are allocated ahead of",
        f"{_FILE}/indexes/mapped_index.py",
        "disk.write_all(fd, bytes(reserved - used), used)",
        "pass",
        f"{_TESTS}/test_failures.py::test_no_room_for_an_index_entry_refuses_the_append",
    ),
    Removal(
        "Index formats are a seam: sparse files or memory, by broker and by topic",
        f"{_FILE}/indexes/formats.py",
        "found = self._by_name.get(name)",
        "found = SPARSE",
        f"{_TESTS}/indexes/test_formats.py::test_foreign_suffixes_are_removed_when_the_index_format_changes",
    ),
    Removal(
        "Index formats are a seam: sparse files or memory, by broker and by topic",
        f"{_FILE}/indexes/formats.py",
        "return all_suffixes(self._by_name).difference(chosen.suffixes)",
        "return frozenset()",
        f"{_TESTS}/indexes/test_formats.py::test_foreign_suffixes_are_removed_when_the_index_format_changes",
    ),
)
