"""What a crash leaves of topics that were being created or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import only_cause
from tests.crash.core import Core
from tidelog.kernel.testing import make_batch
from tidelog.plugins.storage_file.testing import (
    CHANGING,
    DataFate,
    Device,
    DyingProcess,
    NameFate,
    PowerCut,
    ProcessDied,
    Recorder,
)


@pytest.fixture
def core(tmp_path: Path) -> Core:
    """On an empty directory, not open yet."""
    (tmp_path / "data").mkdir()
    return Core(tmp_path)


async def test_a_creation_that_was_killed_leaves_nothing_behind(core: Core) -> None:
    await core.open()
    dying = DyingProcess(20, CHANGING)
    with dying.installed(), pytest.raises(BaseExceptionGroup) as raised:
        await core.create("t", 5)
    assert isinstance(only_cause(raised.value), ProcessDied)
    core.abandon()
    assert len(list(core.data.glob("t-*"))) > 1
    for clean in (False, True):
        await core.open()
        # A broker that finds leftovers at every start could never stop properly again.
        assert (core.storage.clean_start, list(core.topics)) == (clean, [])
        await core.close()
    assert list(core.data.glob("t-?")) == []


async def test_a_deleted_topic_does_not_come_back_under_its_name(core: Core, tmp_path: Path) -> None:
    recorder = Recorder(core.data)
    with recorder.installed():
        await core.open()
        old = await core.create("t", 1)
        old.partitions[0].log.append_nowait(make_batch([b"old"]))
        await old.partitions[0].log.flush()
        await core.topics.delete("t")
        await core.create("t", 1)
        core.abandon()
    for fate in DataFate:
        device = Device()
        for operation in recorder.operations:
            device.apply(operation)
        again = Core(tmp_path / fate.name)
        PowerCut(fate, NameFate.LOST).leave(device, again.data)
        await again.open()
        assert again.topics.get("t").partitions[0].log.log_end_offset == 0
        again.abandon()


async def test_preallocated_zeros_are_no_data(core: Core) -> None:
    await core.open()
    topic = await core.create("t", 1, preallocate="true")
    core.abandon()
    (core.data / "other-0").mkdir()
    log = core.data / "other-0" / "00000000000000000000.log"
    log.write_bytes(bytes(4096))
    await core.open()
    assert (await core.create("other", 1)).partitions[0].log.log_end_offset == 0
    assert core.topics.get("t").topic_id == topic.topic_id
    core.abandon()
