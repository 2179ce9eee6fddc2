"""Options that take a path refuse what has a scheme, instead of writing into a folder with such a name."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.kernel.config.bundle import BUNDLE, bundle_config
from tests.tables import for_each
from tidelog.kernel.cli import serve
from tidelog.kernel.config import Config
from tidelog.kernel.config.paths import check_local_path, data_directories, scheme_of


@for_each(
    ("path", "scheme"),
    [
        ("s3://bucket/x", "s3"),
        (" S3A://bucket/x", "s3a"),
        ("hdfs:/x", "hdfs"),
        ("file:///x", "file"),
        ("git+ssh://host/x", "git+ssh"),
        ("/var/lib/x", None),
        ("x", None),
        ("", None),
        ("./s3://bucket", None),
        ("data/2026-01-31T12:/x", None),
        ("day:1/x", None),
        ("1:/x", None),
    ],
)
def test_scheme_of_is_that_of_uris_alone(path: str, scheme: str | None) -> None:
    assert scheme_of(path) == scheme
    if scheme is None:
        check_local_path(path)
        return
    with pytest.raises(ValueError, match=f"without the scheme file|scheme {scheme.replace('+', '.')} cannot"):
        check_local_path(path)


@pytest.mark.parametrize("name", ["log.dir", "log.dirs", "metadata.log.dir"])
def test_directories_of_the_broker_have_no_scheme(name: str) -> None:
    key = BUNDLE.find(name, "broker")
    assert key is not None
    key.type.parse("/data")
    for text in ("hdfs://host/data", "file:///data"):
        with pytest.raises(ValueError, match="scheme"):
            key.type.parse(text)
    if name != "metadata.log.dir":
        assert key.type.parse("/a,b") == ("/a", "b")
        with pytest.raises(ValueError, match="has 's3://b/x', and the scheme s3 cannot be served"):
            key.type.parse("/a,s3://b/x")


@pytest.mark.parametrize("option", ["--config", "--ready-file"])
def test_options_of_serve_have_no_scheme(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError) as raised:
        serve.command.main([option, "s3://bucket/x"], standalone_mode=False)
    assert "the scheme s3 cannot be served: name a path of this machine" in raised.value.format_message()
    assert not list(tmp_path.iterdir())


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
