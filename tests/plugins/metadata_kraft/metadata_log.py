"""Looking into the metadata log of a storage."""

from __future__ import annotations

from pathlib import Path

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.record import iter_records
from tidelog.plugins.metadata_kraft.encoding import unframe
from tidelog.plugins.metadata_kraft.records.types import BY_API_KEY
from tidelog.plugins.metadata_kraft.store import KraftMetadata

LOG = "00000000000000000000.log"


def metadata_dir(harness: LogDirectoryHarness) -> Path:
    """The metadata log's directory."""
    return harness.log_dir / "__cluster_metadata-0"


def metadata_of(harness: LogDirectoryHarness) -> KraftMetadata:
    """The open metadata store."""
    metadata = harness.metadata
    assert isinstance(metadata, KraftMetadata)
    return metadata


def logged(path: Path) -> list[list[str]]:
    """Names of the records of each batch; control records by their type in the log."""
    content = path.read_bytes()
    batches: list[list[str]] = []
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        batch = content[position : position + header.size]
        if header.is_control:
            batches.append([f"control {(record.key or b'')[-1]}" for record in iter_records(batch, header)])
        else:
            values = [unframe(record.value or b"") for record in iter_records(batch, header)]
            batches.append([BY_API_KEY[value.api_key].name.removesuffix("_RECORD") for value in values])
        position += header.size
    return batches


def snapshots(harness: LogDirectoryHarness) -> list[str]:
    """Names of all snapshots."""
    return sorted(path.name for path in metadata_dir(harness).glob("*.checkpoint*"))
