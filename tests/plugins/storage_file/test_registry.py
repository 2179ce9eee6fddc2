"""The registry of topics in its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.storage import TopicRecord
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.registry import TopicRegistry

TOPIC_ID = UUID(int=7)
GOOD: dict[str, Any] = {
    "version": 1,
    "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
    "next_producer_id": 2000,
    "topics": {"orders": {"id": "X1qQuvyRWqJJJrLZen1rwA", "partitions": 3, "config": {"a": "b"}}},
    "deleted": ["X1qQuvyRWqJJJrLZen1rwQ"],
}


def damaged(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def new_registry(tmp_path: Path) -> TopicRegistry:
    return TopicRegistry(tmp_path / "tidelog-topics.json", "MkU3OEVBNTcwNTJENDM2Qg")


def reread(registry: TopicRegistry) -> TopicRegistry:
    other = TopicRegistry(registry.path, "")
    other.decode(registry.path.read_bytes())
    return other


async def test_the_file_is_json_with_kafkas_ids(tmp_path: Path) -> None:
    registry = new_registry(tmp_path)
    registry.decode(json.dumps(GOOD).encode())
    await registry.allocate_producer_ids(1000)
    assert json.loads(registry.path.read_bytes()) == GOOD | {"next_producer_id": 3000}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\0" * 4096,
        damaged(version=2),
        damaged(topics=[]),
        damaged(topics={"orders": {}}),
        damaged(topics={"orders": {"id": "short", "partitions": 1, "config": {}}}),
        damaged(next_producer_id="many"),
        damaged(deleted=["?"]),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    registry = new_registry(tmp_path)
    with pytest.raises(ConfigError, match=r"tidelog-topics\.json is damaged .*restore it"):
        registry.decode(content)


async def test_changes_at_the_same_time_share_their_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def replace_file(path: Path, content: bytes) -> None:
        written.append(content)
        path.write_bytes(content)

    monkeypatch.setattr(disk, "replace_file", replace_file)
    registry = new_registry(tmp_path)
    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(registry.put_topic, TopicRecord(f"topic{number}", TOPIC_ID, 1))
    assert len(written) <= 2
    assert len(reread(registry).topics()) == 50


async def test_a_change_that_cannot_be_written_did_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = new_registry(tmp_path)
    kept = TopicRecord("kept", TOPIC_ID, 1)
    await registry.put_topic(kept)

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "replace_file", refuse)
    for change in (
        lambda: registry.put_topic(TopicRecord("new", TOPIC_ID, 1)),
        lambda: registry.put_topic(TopicRecord("kept", TOPIC_ID, 9)),
        lambda: registry.remove_topic("kept"),
    ):
        with pytest.raises(OSError, match="No space left"):
            await change()
    monkeypatch.undo()
    first = await registry.allocate_producer_ids(10)
    assert list(registry.topics()) == list(reread(registry).topics()) == [kept]
    assert registry.deleted_topic_ids == frozenset()
    assert first.start == 0


async def test_producer_ids_that_may_have_been_written_down_are_not_given_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = new_registry(tmp_path)

    def fail_after_writing(path: Path, content: bytes) -> None:
        path.write_bytes(content)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "replace_file", fail_after_writing)
    with pytest.raises(OSError, match="Input/output"):
        await registry.allocate_producer_ids(10)
    monkeypatch.undo()
    assert (await registry.allocate_producer_ids(10)).start == 10


async def test_the_ids_of_deleted_topics_are_kept_until_their_directories_are_gone(tmp_path: Path) -> None:
    registry = new_registry(tmp_path)
    await registry.put_topic(TopicRecord("topic", TOPIC_ID, 1))
    await registry.remove_topic("topic")
    assert reread(registry).deleted_topic_ids == {TOPIC_ID}
    registry.forget_deleted()
    await registry.allocate_producer_ids(1)
    assert reread(registry).deleted_topic_ids == frozenset()
