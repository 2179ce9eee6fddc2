"""Ids of members that the broker makes."""

from __future__ import annotations

import pytest

from tidelog.plugins.coordinator.classic_groups.settings import new_member_id
from tidelog.plugins.schema.types import MAX_STRING_BYTES

UUID_CHARACTERS = 37


@pytest.mark.parametrize("prefix", ["", "client", "x" * (MAX_STRING_BYTES - UUID_CHARACTERS)])
def test_new_member_id_begins_with_the_client_id(prefix: str) -> None:
    member_id = new_member_id(prefix)
    assert member_id.startswith(f"{prefix}-")
    assert len(member_id) == len(prefix) + UUID_CHARACTERS
    assert member_id != new_member_id(prefix)


@pytest.mark.parametrize("character", ["x", "é", "€", "\N{GRINNING FACE}"])
def test_new_member_id_truncates_the_prefix_to_the_maximum_string_size(character: str) -> None:
    prefix = character * (MAX_STRING_BYTES // len(character.encode()))
    member_id = new_member_id(prefix)
    size = len(member_id.encode())
    assert MAX_STRING_BYTES - len(character.encode()) < size <= MAX_STRING_BYTES
    assert prefix.startswith(member_id[:-UUID_CHARACTERS])
