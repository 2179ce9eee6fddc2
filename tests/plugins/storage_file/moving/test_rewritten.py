"""How far cleanup policies have rewritten a log moves along with it, from checkpoint to checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.plugins.storage_file.moving.two_directories import PARTITION, TwoDirectories, join
from tidelog.kernel.testing.storage.harness import append_many
from tidelog.plugins.storage_file.directories.checkpoints import read_checkpoint, rewrite_checkpoint


def checkpointed(place: TwoDirectories, policy: str = "compact") -> dict[str, int | None]:
    """What the files of the directories say of the partition now."""
    name = rewrite_checkpoint(policy)
    return {each: read_checkpoint(place.root / each / name).get(PARTITION) for each in "ab"}


def crashed(place: TwoDirectories, root: Path) -> TwoDirectories:
    """What a crash at this moment leaves."""
    shutil.copytree(place.root, root)
    other = TwoDirectories(root, dict(place.assigned))
    other.spec = place.spec
    return other


async def test_remove_source_moves_what_is_checkpointed_of_the_partition(place: TwoDirectories) -> None:
    append_many(place.store, 30, 100)
    place.store.set_rewritten_until("compact", 20)
    place.store.set_rewritten_until("other", 10)
    for here in ({"a": None, "b": 20}, {"a": 20, "b": None}):
        place.take_all_steps(place.move())
        assert checkpointed(place) == here
        assert sorted(checkpointed(place, "other").values(), key=str) == [10, None]
        assert place.store.rewritten_until("compact") == 20
    place.store.set_rewritten_until("compact", 25)
    assert checkpointed(place) == {"a": 25, "b": None}


async def test_remove_source_checkpoints_what_was_noted_during_the_move(place: TwoDirectories) -> None:
    append_many(place.store, 30, 100)
    place.store.set_rewritten_until("compact", 5)
    move = place.move()
    join(move)
    move.make_durable()
    place.store.set_rewritten_until("compact", 7)
    place.decide(move)
    assert move.swap()
    move.remove_source()
    assert checkpointed(place) == {"a": None, "b": 7}


async def test_remove_source_checkpoints_what_the_swap_overtook(place: TwoDirectories) -> None:
    append_many(place.store, 30, 100)
    move = place.move()
    join(move)
    move.make_durable()
    place.decide(move)
    # As in a thread that has not come to the checkpoint yet.
    place.store.rewritten = {"compact": 9}
    assert move.swap()
    move.remove_source()
    assert checkpointed(place) == {"a": None, "b": 9}


@pytest.mark.parametrize("noted", [None, 3, 25])
async def test_make_durable_and_set_rewritten_until_checkpoint_in_both_directories(
    place: TwoDirectories, tmp_path: Path, noted: int | None
) -> None:
    """A crash at any moment of the move finds the offset where it finds the log."""
    append_many(place.store, 30, 100)
    place.store.set_rewritten_until("compact", 20)
    move = place.move()
    join(move)
    move.make_durable()
    if noted is not None:
        place.store.set_rewritten_until("compact", noted)
    until = 20 if noted is None else noted
    assert checkpointed(place) == {"a": until, "b": until}
    place.decide(move)
    after = crashed(place, tmp_path / "crashed")
    store = after.open()
    assert store.directory == f"{after.root}/b/t-0"
    assert store.rewritten_until("compact") == until
    assert checkpointed(after) == {"a": None, "b": until}
    after.abandon()


async def test_write_rewritten_of_the_source_keeps_a_partition_whose_move_is_cancelled(
    place: TwoDirectories, tmp_path: Path
) -> None:
    append_many(place.store, 30, 100)
    place.store.set_rewritten_until("compact", 20)
    move = place.move()
    join(move)
    move.make_durable()
    place.give_up(move)
    place.store.truncate_to(10)
    assert checkpointed(place)["a"] == 10
    after = crashed(place, tmp_path / "crashed")
    assert after.open().rewritten_until("compact") == 10
    assert checkpointed(after) == {"a": 10, "b": None}
    after.abandon()


async def test_truncate_to_after_the_swap_is_checkpointed_in_the_target(
    place: TwoDirectories, tmp_path: Path
) -> None:
    append_many(place.store, 30, 100)
    place.store.set_rewritten_until("compact", 20)
    move = place.move()
    join(move)
    move.make_durable()
    place.decide(move)
    assert move.swap()
    place.store.truncate_to(10)
    after = crashed(place, tmp_path / "crashed")
    assert after.open().rewritten_until("compact") == 10
    after.abandon()
