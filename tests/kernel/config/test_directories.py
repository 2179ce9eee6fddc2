"""Where the storage has its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.config.bundle import bundle_config
from tidelog.kernel.config import Config
from tidelog.kernel.config.directories import data_directories


@pytest.mark.parametrize(
    ("settings", "directories"),
    [
        ({"log.dirs": "/a,b"}, ["/a", "b"]),
        ({"log.dir": "c"}, ["c"]),
        ({"log.dirs": "/a", "log.dir": "c"}, ["/a"]),
    ],
)
def test_data_directories_are_absolute(
    settings: dict[str, str], directories: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_directories(bundle_config(settings)) == tuple(tmp_path / each for each in directories)


def test_there_are_no_data_directories_without_keys_for_them() -> None:
    assert data_directories(Config.from_mapping({})) == ()
