"""Changes of settings: what comes of each operation, and what is refused."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.kernel.config import ConfigKey, comma_list, integer
from tidelog.kernel.errors import InvalidConfig, InvalidRequest
from tidelog.plugins.protocol_kafka.apis.config_changes import (
    Alteration,
    AlterOperation,
    altered_by,
    replaced_by,
)

COLOURS = ConfigKey("colours", comma_list(), ("red",), "", scope="topic")
COUNT = ConfigKey("count", integer(), 1, "", scope="topic")
KEYS = {key.name: key for key in (COLOURS, COUNT)}

SET, DELETE, APPEND, SUBTRACT = AlterOperation
Changes = list[tuple[str, AlterOperation, str | None]]


def altered(before: dict[str, str], changes: Changes) -> dict[str, str]:
    def in_force(name: str) -> str:
        return KEYS[name].type.format(KEYS[name].default)

    return altered_by([Alteration(*change) for change in changes], KEYS.get, in_force)(before)


@for_each(
    ("before", "changes", "after"),
    [
        ({}, [("count", SET, "2")], {"count": "2"}),
        ({"count": "1", "colours": "blue"}, [("count", SET, "2")], {"count": "2", "colours": "blue"}),
        ({"count": "1"}, [("count", DELETE, None)], {}),
        ({"count": "1"}, [("count", DELETE, "whatever")], {}),
        ({}, [("count", DELETE, None)], {}),
        ({}, [("no.such.key", DELETE, None)], {}),
        ({"colours": "blue"}, [("colours", APPEND, "green,blue")], {"colours": "blue,green"}),
        ({}, [("colours", APPEND, "green")], {"colours": "red,green"}),
        ({"colours": "blue,green"}, [("colours", SUBTRACT, "green,gold")], {"colours": "blue"}),
        ({}, [("colours", SUBTRACT, "red")], {"colours": ""}),
        ({"colours": "blue"}, [("count", SET, "3"), ("colours", DELETE, None)], {"count": "3"}),
    ],
)
def test_altered_by_applies_each_alter_operation_to_a_copy(
    before: dict[str, str], changes: Changes, after: dict[str, str]
) -> None:
    kept = dict(before)
    assert altered(before, changes) == after
    assert before == kept


@for_each(
    ("changes", "error"),
    [
        ([("count", APPEND, "2")], InvalidConfig),
        ([("no.such.key", SUBTRACT, "2")], InvalidConfig),
        ([("colours", APPEND, "a,,b")], InvalidConfig),
        ([("count", SET, None)], InvalidRequest),
        ([("colours", APPEND, None)], InvalidRequest),
        ([("count", SET, "1"), ("count", DELETE, None)], InvalidRequest),
    ],
)
def test_altered_by_refuses_invalid_alterations(changes: Changes, error: type[Exception]) -> None:
    with pytest.raises(error, match=changes[0][0].replace(".", r"\.")):
        altered({}, changes)


def test_replaced_by_removes_all_previous_settings() -> None:
    assert replaced_by([("count", "2")])({"colours": "blue", "count": "1"}) == {"count": "2"}
    assert replaced_by([])({"count": "1"}) == {}


@pytest.mark.parametrize("settings", [[("count", None)], [("count", "1"), ("count", "1")]])
def test_replaced_by_refuses_null_values_and_duplicate_keys(settings: list[tuple[str, str | None]]) -> None:
    with pytest.raises(InvalidRequest, match="count"):
        replaced_by(settings)
