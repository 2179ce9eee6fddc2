"""Tables in the configuration: a plugin declares keys for any number of them, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.kernel.config import Config, ConfigKey, ConfigKeys, comma_list, integer, read_sources, string
from tidelog.kernel.errors import ConfigError

SERVERS = ConfigKey(
    name="mirrors.NAME.servers", type=string(), default="", required=True, documentation="The source."
)
TOPICS = ConfigKey(name="mirrors.NAME.topics", type=comma_list(), default=("all",), documentation="Which.")
SIZE = ConfigKey(name="mirrors.NAME.size.max", type=integer(1), default=3, documentation="How many.")
KEYS = ConfigKeys((SERVERS, TOPICS, SIZE))


def from_toml(folder: Path, text: str, *assignments: str, **environment: str) -> Config:
    file = folder / "broker.toml"
    file.write_text(text)
    return Config(read_sources(file, environment, assignments), KEYS)


TWO = """
[mirrors.us]
servers = "us:9092"
topics = ["a", "b"]
[mirrors.eu]
servers = "eu:9092"
"""


def test_each_table_has_the_keys_of_its_section(tmp_path: Path) -> None:
    us, eu = from_toml(tmp_path, TWO).tables("mirrors")
    assert (us.name, us[SERVERS], us[TOPICS], us[SIZE]) == ("us", "us:9092", ("a", "b"), 3)
    assert (eu.name, eu[SERVERS], eu[TOPICS], eu.is_set(TOPICS)) == ("eu", "eu:9092", ("all",), False)


def test_assignments_and_variables_add_to_a_table(tmp_path: Path) -> None:
    config = from_toml(tmp_path, TWO, "mirrors.us.size.max=7", TIDELOG_MIRRORS_EU_TOPICS="c")
    us, eu = config.tables("mirrors")
    assert (us[SIZE], eu[TOPICS]) == (7, ("c",))
    assert config.text("mirrors.us.size.max") == "7"
    (ours,) = Config(read_sources(None, {}, ["mirrors.x.servers=x:1"]), KEYS).tables("mirrors")
    assert ours[SERVERS] == "x:1"


def test_without_a_table_a_section_has_none(tmp_path: Path) -> None:
    config = from_toml(tmp_path, "")
    assert config.tables("mirrors") == ()
    assert config.tables("others") == ()
    assert not any(key.name.startswith("mirrors.") for key in config.keys)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[mirrors.us]\ntopics = 'a'", r"\[mirrors.us\] needs servers: The source."),
        ("[mirrors.us]\nservers = 'a'\ntopcs = 'a'", r"did you mean mirrors.us.topics\?"),
        ("[mirrors.us]\nservers = 'a'\nsize.max = 0", "mirrors.us.size.max = '0'.* is out of range"),
        ("[mirrors.'u.s']\nservers = 'a'", "mirrors.u.s.servers .* is no key"),
        ("[mirrors.a-b]\nservers = 'a'\n[mirrors.a_b]\nservers = 'b'", "the same environment variables"),
    ],
)
def test_mistakes_are_named(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        from_toml(tmp_path, text)


def test_a_dynamic_change_keeps_the_tables(tmp_path: Path) -> None:
    config = from_toml(tmp_path, TWO)
    config.set_dynamic({}, {})
    assert [each.name for each in config.tables("mirrors")] == ["us", "eu"]
    other = config.with_overrides({"num.partitions": 3})
    assert [each.name for each in other.tables("mirrors")] == ["us", "eu"]
