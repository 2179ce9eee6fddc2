"""Which log directory has the metadata log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables import for_each
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.metadata_kraft.directory import choose_directory, has_metadata_log

A, B, C = Path("/logs/a"), Path("/logs/b"), Path("/logs/c")
OFFLINE = {C: "Input/output error"}


@for_each(
    ("wanted", "having", "offline", "chosen"),
    [
        pytest.param(None, [], {}, A, id="the first one for a new log"),
        pytest.param(None, [B], {}, B, id="the one that has it, whatever their order"),
        pytest.param(None, [B], OFFLINE, B, id="the one that has it, though another is offline"),
        pytest.param("/logs/b", [], {}, B, id="the one that is configured"),
        pytest.param("/logs/b", [B], OFFLINE, B, id="the configured one, which has it"),
        pytest.param("/logs/x/../b", [], {}, B, id="the configured one by another path"),
        pytest.param("/meta", [], {}, Path("/meta"), id="one apart from log.dirs"),
    ],
)
def test_choose_directory(
    wanted: str | None, having: list[Path], offline: dict[Path, str], chosen: Path
) -> None:
    assert choose_directory(wanted, [A, B], having, offline) == chosen


@pytest.mark.parametrize(
    ("wanted", "having", "offline", "message"),
    [
        (None, [], OFFLINE, "may be in a log directory that is offline .*/logs/c: Input/output error"),
        (
            None,
            [A, B],
            {},
            "several metadata logs, or places for one: /logs/b/.* and /logs/a/",
        ),
        ("/logs/b", [A], {}, "several metadata logs, or places for one: /logs/a/.* and /logs/b/"),
        ("/meta", [A], {}, "several metadata logs, or places for one: /logs/a/.* and /meta/"),
    ],
)
def test_choose_directory_refuses(
    wanted: str | None, having: list[Path], offline: dict[Path, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_directory(wanted, [A, B], having, offline)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00000000000000000000.log", True),
        ("00000000000000000000-0000000000.checkpoint", True),
        ("partition.metadata", False),
        ("quorum-state", False),
    ],
)
def test_has_metadata_log(tmp_path: Path, name: str, expected: bool) -> None:
    assert not has_metadata_log(tmp_path)
    (tmp_path / "__cluster_metadata-0").mkdir()
    assert not has_metadata_log(tmp_path)
    (tmp_path / "__cluster_metadata-0" / name).touch()
    assert has_metadata_log(tmp_path) == expected
