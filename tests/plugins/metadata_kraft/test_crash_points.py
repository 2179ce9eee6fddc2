"""Wherever the process dies or the power fails, the metadata is the old or the new."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from tests.metadata_changes import allocate_producer_ids, put_topics, remove_topics
from tests.plugins.metadata_kraft.metadata_log import metadata_of
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.metadata import topic_image
from tidelog.kernel.seams.metadata import BrokerRegistration
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.plugins.metadata_kraft.image import RecordImage
from tidelog.plugins.storage_file.testing.device import Device
from tidelog.plugins.storage_file.testing.power_cut import DataFate, NameFate, PowerCut
from tidelog.plugins.storage_file.testing.recording import Recorder

pytestmark = pytest.mark.in_memory

LIMITS = {"metadata.log.max.record.bytes.between.snapshots": 900}
REGISTRATION = BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None)
FATES = [
    (DataFate.KEPT, NameFate.KEPT),
    (DataFate.LOST, NameFate.LOST),
    (DataFate.TORN, NameFate.SOME),
    (DataFate.NONSENSE, NameFate.KEPT),
    (DataFate.SCATTERED, NameFate.SOME),
]

Step = Callable[[LogDirectoryHarness], Awaitable[object]]


def put(name: str, number: int, partitions: int, note: str) -> Step:
    record = topic_image(name, UUID(int=number), partitions, {"note": note})
    return lambda harness: put_topics(metadata_of(harness), record)


STEPS: list[Step] = [
    lambda harness: harness.open(),
    lambda harness: metadata_of(harness).register_broker(REGISTRATION),
    put("a", 1, 2, "x" * 300),
    put("b", 2, 3, "y" * 300),
    lambda harness: allocate_producer_ids(metadata_of(harness), 1000),
    put("a", 1, 4, "z"),
    lambda harness: remove_topics(metadata_of(harness), "b"),
    put("c", 3, 1, "w" * 600),
    lambda harness: harness.reopen(),
    lambda harness: allocate_producer_ids(metadata_of(harness), 1000),
    put("b", 4, 1, "v" * 600),
    lambda harness: harness.close(),
]


def told(image: RecordImage) -> object:
    """What users see of the metadata; leader epochs may be higher after a crash, and are."""
    topics = {topic.name: (topic_id, len(topic.partitions)) for topic_id, topic in image.topics.items()}
    configs = {resource: dict(values) for resource, values in image.configs.items() if resource[0] == 2}
    return topics, configs, image.next_producer_id


async def recorded_life(tmp_path: Path, tasks: BackgroundTasks) -> tuple[Recorder, list[tuple[int, object]]]:
    """All operations on files of a storage's life, and what was told after which of them."""
    harness = LogDirectoryHarness(tmp_path / "recorded", tasks, LIMITS)
    recorder = Recorder(tmp_path / "recorded/data")
    history: list[tuple[int, object]] = [(0, told(RecordImage()))]
    (tmp_path / "recorded/data").mkdir(parents=True)
    with recorder.installed():
        for step in STEPS:
            await step(harness)
            recorder.catch_up()
            history.append((len(recorder.operations), told(metadata_of(harness).records)))
    return recorder, history


async def look(place: Path, tasks: BackgroundTasks) -> object:
    """Open what a crash left, twice: what it tells must not change."""
    outcomes: list[object] = []
    for _ in range(2):
        harness = LogDirectoryHarness(place, tasks, LIMITS)
        await harness.open()
        outcomes.append(told(metadata_of(harness).records))
        harness.abandon()
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


@pytest.mark.parametrize(
    ("data", "names"),
    [*FATES[:2], *(pytest.param(*fates, marks=pytest.mark.long) for fates in FATES[2:])],
    ids=lambda fate: fate.name,
)
async def test_a_power_cut_leaves_the_old_or_the_new(
    tmp_path: Path, tasks: BackgroundTasks, data: DataFate, names: NameFate
) -> None:
    recorder, history = await recorded_life(tmp_path, tasks)
    device = Device()
    points = set(random.Random(7).sample(range(len(recorder.operations)), 60))
    for count, operation in enumerate(recorder.operations):
        if count in points:
            place = tmp_path / str(count)
            place.mkdir()
            PowerCut(data, names, seed=count).leave(device, place / "data")
            before = [outcome for done, outcome in history if done <= count][-1]
            after = next(outcome for done, outcome in history if done > count)
            assert await look(place, tasks) in (before, after), f"after {count} operations"
        device.apply(operation)
