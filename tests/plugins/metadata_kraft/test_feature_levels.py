"""Feature levels in the metadata log: what may be changed, and the records of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.plugins.metadata_kraft.metadata_log import LOG, logged, metadata_dir, metadata_of
from tests.plugins.storage_file.files import LogDirectoryHarness
from tests.tables import for_each
from tidelog.kernel.errors import InvalidUpdateVersion
from tidelog.kernel.metadata import MetadataDelta
from tidelog.plugins.metadata_kraft.changes import level_changes
from tidelog.plugins.metadata_kraft.feature_levels import check_levels
from tidelog.plugins.metadata_kraft.image import RecordImage
from tidelog.plugins.metadata_kraft.records.cluster import FeatureLevelRecord
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE, ConfigRecord

METADATA, ELR = "metadata.version", "eligible.leader.replicas.version"
MIN_ISR = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="1")


@for_each(("current", "wanted"), [(17, 33), (31, 30), (29, 23), (22, 17), (22, 21), (23, 30), (24, 29)])
def test_check_levels_permits_metadata_versions_with_the_same_records(current: int, wanted: int) -> None:
    check_levels(RecordImage(features={METADATA: current}), 1, {METADATA: wanted})


@pytest.mark.parametrize(
    ("current", "wanted", "because"), [(33, 32, 33), (33, 17, 33), (32, 31, 32), (30, 29, 30), (29, 22, 23)]
)
def test_check_levels_refuses_metadata_versions_that_lose_content(
    current: int, wanted: int, because: int
) -> None:
    image = RecordImage(features={METADATA: current})
    with pytest.raises(InvalidUpdateVersion, match=f"from {current} to {wanted}: .* of level {because} "):
        check_levels(image, 1, {METADATA: wanted})


@pytest.mark.parametrize(
    ("features", "levels"),
    [
        ({METADATA: 22}, {ELR: 1}),
        ({METADATA: 29, ELR: 1}, {METADATA: 22}),
        ({METADATA: 22}, {ELR: 1, METADATA: 21}),
    ],
)
def test_check_levels_refuses_eligible_leader_replicas_below_their_metadata_version(
    features: dict[str, int], levels: Mapping[str, int]
) -> None:
    with pytest.raises(InvalidUpdateVersion):
        check_levels(RecordImage(features=features), 1, levels)


def test_check_levels_permits_eligible_leader_replicas_with_their_metadata_version() -> None:
    check_levels(RecordImage(features={METADATA: 22}), 1, {ELR: 1, METADATA: 23})


def test_level_changes_begin_with_metadata_version_and_set_min_insync_replicas_for_elr() -> None:
    def changes(image: RecordImage) -> list[object]:
        return [message for message, _ in level_changes(image, {ELR: 1, METADATA: 30})]

    levels = [
        FeatureLevelRecord(name=METADATA, feature_level=30),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    assert changes(RecordImage()) == [*levels, MIN_ISR]
    configured = RecordImage(configs={(BROKER_RESOURCE, ""): {"min.insync.replicas": "1"}})
    assert changes(configured) == levels


async def test_levels_are_one_batch_of_the_metadata_log(harness: LogDirectoryHarness) -> None:
    metadata = metadata_of(harness)
    before = metadata.image.features_epoch
    await metadata.commit(MetadataDelta(features={"group.version": 0, "transaction.version": 1}))
    assert logged(metadata_dir(harness) / LOG)[-1] == ["FEATURE_LEVEL"] * 2
    assert metadata.image.features_epoch == before + 2
    await harness.reopen()
    levels = metadata_of(harness).image.features
    assert (levels.get("group.version", 0), levels["transaction.version"]) == (0, 1)
