"""Files that are replaced: whatever the power does meanwhile, they have the old content or the new one.

When the replacement returns, it is the new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.metadata_kraft.quorum_state import write_quorum_state
from tidelog.plugins.storage_file.directories.checkpoints import write_checkpoint, write_clean_shutdown_file
from tidelog.plugins.storage_file.directories.meta_properties import MetaProperties, write_meta_properties
from tidelog.plugins.storage_file.log.side_files import SideFiles
from tidelog.plugins.storage_file.testing import DataFate, NameFate, PowerCut, Recorder

CUTS = [PowerCut(data, names, seed) for data in DataFate for names in NameFate for seed in range(3)]
LEAST_IS_KEPT = PowerCut(DataFate.LOST, NameFate.LOST)
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def replace(place: Path, number: int) -> None:
    disk.replace_file(place / "file", b"%d" % number * 5000)


def checkpoint(place: Path, number: int) -> None:
    offsets = {TopicPartition("orders", partition): number for partition in range(2000)}
    write_checkpoint(place / "recovery-point-offset-checkpoint", offsets)


def side_file(place: Path, number: int) -> None:
    SideFiles(str(place), []).write("00000000000000000007.snapshot", bytes([number]) * 5000)


def meta_properties(place: Path, number: int) -> None:
    write_meta_properties(place, MetaProperties(f"cluster-{number}", 1, DIRECTORY_ID), 0)


def clean_mark(place: Path, number: int) -> None:
    write_clean_shutdown_file(place, number)


def quorum_state(place: Path, number: int) -> None:
    write_quorum_state(place, 1, number, 1)


WRITERS: list[Callable[[Path, int], None]] = [
    replace,
    checkpoint,
    side_file,
    meta_properties,
    clean_mark,
    quorum_state,
]


def content_in(place: Path) -> bytes | None:
    """Of the one file there that has no temporary name."""
    names = [path for path in place.iterdir() if path.suffix != disk.TEMPORARY_SUFFIX]
    assert len(names) <= 1
    return names[0].read_bytes() if names else None


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("is_there", [True, False])
def test_replace_file_leaves_the_old_or_the_new_content_after_a_power_loss(
    tmp_path: Path, write: Callable[[Path, int], None], is_there: bool
) -> None:
    place, left = tmp_path / "place", tmp_path / "left"
    place.mkdir()
    if is_there:
        write(place, 1)
    old = content_in(place)
    recorder = Recorder(place)
    with recorder.installed():
        write(place, 2)
    new = content_in(place)
    assert new != old
    device = recorder.start
    for operation in recorder.operations:
        for cut in CUTS:
            cut.leave(device, left)
            assert content_in(left) in (old, new), (operation, cut)
            shutil.rmtree(left)
        device.apply(operation)
    LEAST_IS_KEPT.leave(device, left)
    assert content_in(left) == new
