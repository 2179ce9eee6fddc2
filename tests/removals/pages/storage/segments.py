"""Segments and their files."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_FILE = "plugins/storage_file"
_TESTS = "plugins/storage_file"

REMOVALS: Final = (
    Removal(
        "A partition is a directory of segments, files named by the base offset in 20 digits",
        f"{_FILE}/names.py",
        'return f"{base_offset:020d}{suffix}"',
        'return f"{base_offset:019d}{suffix}"',
        f"{_TESTS}/test_names.py::test_segment_file_is_named_by_the_base_offset",
    ),
    Removal(
        "Appends go to the newest segment; there is always one",
        f"{_FILE}/segments/log_segments.py",
        "count = max(_count_up_to(self.all, offset) - 1, 0)",
        "count = _count_up_to(self.all, offset)",
        f"{_TESTS}/test_conformance.py::TestFileStorage::test_a_store_agrees_with_the_simplest_log",
    ),
    Removal(
        "Appends go to the newest segment; there is always one",
        f"{_FILE}/segments/log_segments.py",
        "self.all = (*self.all, segment)\n            self.active = segment",
        "self.all = (*self.all, segment)",
        f"{_TESTS}/test_conformance.py::TestFileStorage::test_a_store_agrees_with_the_simplest_log",
    ),
    *(
        Removal(
            "`.deleted`, `.cleaned`, `.swap`, `-delete`, `-stray`, `-future`",
            f"{_FILE}/names.py",
            f' = "{mark}"',
            f' = "{mark}-it"',
            f"{_TESTS}/test_names.py",
        )
        for mark in (".deleted", ".cleaned", ".swap", "-delete", "-stray", "-future")
    ),
    Removal(
        "Segments are found by floor and by range; readers see consistent lists",
        f"{_FILE}/segments/log_segments.py",
        "return segments[max(_count_up_to(segments, offset) - 1, 0) :]",
        "return segments[_count_up_to(segments, offset) :]",
        f"{_TESTS}/test_conformance.py",
    ),
    Removal(
        "Segments are found by floor and by range; readers see consistent lists",
        f"{_FILE}/segments/log_segments.py",
        "self.all = (*self.all[:start], *new, *self.all[start + len(old) :])",
        "behind = self.all[start + len(old) :]\n"
        "            self.all = (*self.all[:start], *new)\n"
        "            self.all = (*self.all, *behind)",
        f"{_TESTS}/segments/test_readable_segment.py::test_read_between_any_two_lines_of_a_replacement",
    ),
    Removal(
        "Each segment knows the bytes since its last index entry, its largest and its first timestamp",
        f"{_FILE}/segments/segment.py",
        "self._since_index = size\n",
        "self._since_index += size\n",
        f"{_TESTS}/log/test_rolling.py::test_append_adds_an_index_entry_every_index_interval_bytes",
    ),
    Removal(
        "Each segment knows the bytes since its last index entry, its largest and its first timestamp",
        f"{_FILE}/segments/segment.py",
        "if max_timestamp > self.max_timestamp:\n            self.max_timestamp =",
        "if max_timestamp > 1 << 62:\n            self.max_timestamp =",
        f"{_TESTS}/test_conformance.py::TestFileStorage::test_a_store_agrees_with_the_simplest_log",
    ),
    Removal(
        "Each segment knows the bytes since its last index entry, its largest and its first timestamp",
        f"{_FILE}/log/local_log.py",
        "segment.first_timestamp = max_timestamp",
        "pass",
        f"{_TESTS}/test_conformance.py::TestFileStorage::test_append_rolls_by_segment_ms",
    ),
    Removal(
        "Reads need no lock: they are by position, and the end offset is published before the position",
        f"{_FILE}/segments/segment.py",
        "self.next_offset = last_offset + 1\n        self.size = position + size",
        "self.size = position + size\n        self.next_offset = last_offset + 1",
        f"{_TESTS}/segments/test_readable_segment.py::test_read_between_any_two_lines_of_an_append",
    ),
    Removal(
        "Reads need no lock: they are by position, and the end offset is published before the position",
        f"{_FILE}/segments/readable_segment.py",
        "size = self.size\n        whole = limit_offset >= self.next_offset",
        "whole = limit_offset >= self.next_offset\n        size = self.size",
        f"{_TESTS}/segments/test_readable_segment.py::test_append_between_any_two_lines_of_a_read",
    ),
    Removal(
        "`preallocate`: a new segment has its full size, and is trimmed when it is closed",
        f"{_FILE}/segments/creation.py",
        "disk.preallocate(log.fd, settings.preallocate_bytes)",
        "pass",
        f"{_TESTS}/test_layout.py::test_preallocate_reserves_segment_bytes_and_close_trims_the_log",
    ),
    Removal(
        "`preallocate`: a new segment has its full size, and is trimmed when it is closed",
        f"{_FILE}/segments/segment.py",
        "disk.truncate(path, self.size)",
        "pass",
        f"{_TESTS}/test_layout.py::test_preallocate_reserves_segment_bytes_and_close_trims_the_log",
    ),
    Removal(
        "When a segment becomes inactive: last entry of the time index, indexes cut, files closed when idle",
        f"{_FILE}/segments/segment.py",
        "self.close_indexes()\n            self.trim_log()",
        "self.trim_log()",
        f"{_TESTS}/segments/test_creation.py",
    ),
    Removal(
        "When a segment becomes inactive: last entry of the time index, indexes cut, files closed when idle",
        f"{_FILE}/indexes/sparse_index.py",
        "self._times.append_last(max_timestamp, max_timestamp_offset)",
        "pass",
        f"{_TESTS}/segments/test_creation.py",
    ),
    Removal(
        "When a segment becomes inactive: last entry of the time index, indexes cut, files closed when idle",
        f"{_FILE}/segments/segment.py",
        "else:\n            self.sleep()",
        "else:\n            pass",
        f"{_TESTS}/test_idle.py::test_partitions_that_fell_idle_let_their_descriptors_go",
    ),
    Removal(
        "A deleted file stays readable through its file regions",
        f"{_FILE}/segments/segment.py",
        "self._fd = -1\n        self._writer = self.log = None\n        self.index.release()",
        "if self.log is not None:\n"
        "            disk.close(self.log.fd)\n"
        "            self.log.fd = -1\n"
        "        self._fd = -1\n"
        "        self._writer = self.log = None\n"
        "        self.index.release()",
        f"{_TESTS}/test_conformance.py",
    ),
    Removal(
        "`partition.metadata` has the topic's id, and is durable before the first record",
        f"{_FILE}/recovery/opening.py",
        "if found == placement.spec.topic_id:",
        "if found:",
        f"{_TESTS}/directories/test_log_directories.py::test_open_partitions_refuses_a_directory_with_data_of_another_topic",
    ),
    Removal(
        "`partition.metadata` has the topic's id, and is durable before the first record",
        f"{_FILE}/log/durability.py",
        'self._sync_path(f"{directory}/{PARTITION_METADATA}", disk.fsync)',
        "pass",
        f"{_TESTS}/test_layout.py::test_partition_metadata_is_durable_before_the_first_record",
    ),
)
