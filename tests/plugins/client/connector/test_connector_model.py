"""Groups of connectors through joins, leaves, kills and lost sessions, for both ways of coordination.

Each partition feeds one stream at a time; each record is returned, in order, and none twice but after a
member was killed or has lost its session before it had committed.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.client.connector.group_model import GroupModel

EVENTS = ("join", "leave", "kill", "lose", "commit", "turns")


def run(model: GroupModel, steps: int) -> None:
    try:
        for _ in range(steps):
            event = model.random.choice(EVENTS) if model.living else "join"
            if event == "join" and len(model.living) >= 4:
                event = "leave"
            if event != "turns":
                getattr(model, event)()
            for _ in range(model.random.randrange(8)):
                model.turn()
        model.finish()
    finally:
        model.close()


@pytest.mark.parametrize("coordination", ["broker", "zookeeper"])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 12))
def test_connectors_return_each_record_whatever_happens(coordination: str, seed: int, steps: int) -> None:
    run(GroupModel(coordination, seed), steps)


@pytest.mark.parametrize("coordination", ["broker", "zookeeper"])
def test_connectors_return_each_record_once_while_members_join_and_leave(coordination: str) -> None:
    for seed in range(10):
        model = GroupModel(coordination, seed)
        try:
            for _ in range(8):
                if len(model.living) < 4 and (len(model.living) < 2 or model.random.random() < 0.5):
                    model.join()
                else:
                    model.leave()
                for _ in range(10):
                    model.turn()
            model.finish()
        finally:
            model.close()
        assert all(len(found) == len({*found}) for found in model.returned.values())


def test_a_failed_automatic_commit_is_logged_and_ends_no_iteration(caplog: pytest.LogCaptureFixture) -> None:
    model = GroupModel("broker", 1)
    try:
        model.join()
        for _ in range(4):
            model.turn()
        assert any(model.returned.values())
        # The coordinator has dropped the member, which does not know of it yet.
        model.broker.members.clear()
        for _ in range(30):
            model.turn()
        assert "an automatic commit of group 'g' failed: orders-" in caplog.text
    finally:
        model.close()
