"""Configuration in TOML."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.config import Config, ConfigKeys, Sources, keys, read_sources
from tidelog.kernel.config.sources.toml_file import read_toml
from tidelog.kernel.errors import ConfigError


def settings(text: str) -> dict[str, str]:
    problems: list[str] = []
    found = read_toml(text, "broker.toml", problems)
    assert problems == []
    return {setting.name: setting.text for setting in found}


SAME_SETTINGS = [
    'num.partitions = 3\nlog.dirs = "a,b"',
    '"num.partitions" = 3\n"log.dirs" = ["a", "b"]',
    '[num]\npartitions = 3\n[log]\ndirs = ["a", "b"]',
    'num = { partitions = 3 }\nlog . "dirs" = ["a", "b"]',
]


@pytest.mark.parametrize("text", SAME_SETTINGS)
def test_read_toml_treats_dotted_keys_quoted_keys_and_tables_alike(text: str) -> None:
    assert settings(text) == {"num.partitions": "3", "log.dirs": "a,b"}


VALUES = [
    ("true", "true"),
    ("-1", "-1"),
    ("1_000", "1000"),
    ("0x10", "16"),
    ("0.5", "0.5"),
    ("[1, 2]", "1,2"),
    ("[]", ""),
    ("'x'", "x"),
    ('"""\nx"""', "x"),
]


@for_each(("toml", "text"), VALUES)
def test_read_toml_converts_values_to_kafka_notation(toml: str, text: str) -> None:
    assert settings(f"key = {toml}") == {"key": text}


NO_VALUES = [
    ("1979-05-27", "key (broker.toml:1): a date is no value of a setting"),
    ('["a,b"]', "key (broker.toml:1): the list item 'a,b' holds a comma, which separates items"),
    ("[[1]]", "key (broker.toml:1): a list is no value of a setting"),
    ("[{a = 1}]", "key (broker.toml:1): a dict is no value of a setting"),
]


@pytest.mark.parametrize(("toml", "problem"), NO_VALUES)
def test_read_toml_reports_values_that_no_setting_can_have(toml: str, problem: str) -> None:
    problems: list[str] = []
    assert read_toml(f"key = {toml}", "broker.toml", problems) == []
    assert problems == [problem]


def test_the_origin_is_the_line() -> None:
    text = """# comment
node.id = 1

[log]
roll.hours = 2 # here
"roll.jitter.hours" = 3
index = {interval.bytes=9}
"""
    origins = {setting.name: str(setting.origin) for setting in read_toml(text, "b.toml", [])}
    assert origins == {
        "node.id": "b.toml:2",
        "log.roll.hours": "b.toml:5",
        "log.roll.jitter.hours": "b.toml:6",
        "log.index.interval.bytes": "b.toml",
    }


@pytest.mark.parametrize(
    "text",
    [
        "max.connections = 1\nmax.connections.per.ip = 2",
        "[max]\nconnections = 1\nconnections.per.ip = 2",
        "max.connections.per.ip = 2\nmax.connections = 1",
    ],
)
def test_a_key_that_begins_with_another_key_is_explained(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(text, "broker.toml", [])
    message = str(caught.value)
    assert "max.connections (line " in message
    assert '"max.connections.per.ip" = ...' in message


def test_read_toml_accepts_a_quoted_key_that_begins_with_another_key() -> None:
    assert settings('"max.connections.per.ip" = 2\nmax.connections = 1') == {
        "max.connections": "1",
        "max.connections.per.ip": "2",
    }


def test_read_toml_names_the_file_and_the_line_of_other_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"broker\.toml is not well-formed TOML: .*line 1.*\.properties"):
        read_toml("node.id 1", "broker.toml", [])


def test_read_sources_reads_a_toml_file_with_origins(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("num.partitions = 7\n")
    config = Config(read_sources(file), ConfigKeys())
    assert config[keys.NUM_PARTITIONS] == 7
    assert str(config.origin(keys.NUM_PARTITIONS)) == f"{file}:1"


UNREADABLE = {
    "missing.toml": (None, "cannot be read: No such file"),
    "folder.toml": ("folder", "cannot be read: Is a directory"),
    "binary.toml": (b"\xff\xfe\x00", "is not text in UTF-8"),
    "huge.toml": (b"#" * ((1 << 20) + 1), "is larger than"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_read_sources_names_a_toml_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    content, reason = UNREADABLE[name]
    file = tmp_path / name
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        file.mkdir()
    with pytest.raises(ConfigError) as caught:
        read_sources(file)
    assert str(file) in str(caught.value)
    assert reason in str(caught.value)


def test_read_sources_without_toml_file_or_other_source_is_empty() -> None:
    assert read_sources() == Sources()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){0,3}", fullmatch=True), st.integers(), max_size=8
    )
)
def test_read_toml_finds_no_conflict_between_quoted_keys(values: dict[str, int]) -> None:
    text = "".join(f'"{name}" = {value}\n' for name, value in values.items())
    assert settings(text) == {name: str(value) for name, value in values.items()}
