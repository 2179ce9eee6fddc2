"""What was moved to the right partitions of a directory is there for Apache Kafka as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hands.look import Looker, faults_in_files
from tests.plugins.coordinator import misplacing
from tests.plugins.coordinator.misplacing import CLASSIC, CONSUMER, expected_offsets, loaded, settings
from tests.plugins.metadata_kraft.hands import kafka_on
from tidelog.kernel.testing.broker import running_broker


@pytest.mark.long
async def test_kafka_finds_what_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    await misplacing.fill(data, monkeypatch)
    async with running_broker(settings(data)) as broker:
        await loaded(broker)
    kafka = kafka_on(data, tmp_path / "kafka")
    try:
        kafka.start()
        offsets = {group: found for group, found in expected_offsets().items() if found}
        view = Looker(kafka.bootstrap).look(offsets.keys())
    finally:
        kafka.stop()
    found = {
        group: {place: offset for (_, place), offset in of.items()} for group, of in view.offsets.items()
    }
    assert {group: of for group, of in found.items() if of} == offsets
    assert "member-1" in repr(view.groups[CLASSIC])
    assert "'m'" in repr(view.groups[CONSUMER])
    states = {tuple(line.split()[i] for i in (0, 3)) for line in view.tools["transactions"]}
    assert {(name, state.title) for name, state in misplacing.TRANSACTION_STATES.items()} <= states
    assert faults_in_files(sorted(data.glob("*-*/*.log"))) == []
