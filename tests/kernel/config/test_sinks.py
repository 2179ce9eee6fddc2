"""Sinks in the configuration: tables, `--set` and variables set their keys, and mistakes are named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tidelog.kernel.config import Config, ConfigKey, ConfigKeys, integer, password, read_sources, string
from tidelog.kernel.config.sinks import (
    ISOLATION_LEVEL,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    TOPICS,
    TOPICS_REGEX,
)
from tidelog.kernel.errors import ConfigError

PATH = ConfigKey(
    name="path",
    type=string(non_empty=True),
    default="",
    required=True,
    documentation="The directory to write to.",
)
ROWS = ConfigKey(
    name="rows.max", type=integer(1), default=100, aliases=("rows",), documentation="Rows of a file."
)
FORMAT = ConfigKey(name="format", type=string(), default="plain", documentation="How to write.")
LEVEL = ConfigKey(
    name="format.level", type=integer(), default=1, only_with=("format", "zip"), documentation="How small."
)
SECRET = ConfigKey(name="secret", type=password(), default=None, documentation="A password.")
KEYS = ConfigKeys(sink_kinds={"files": (PATH, ROWS, FORMAT, LEVEL, SECRET), "nothing": ()})


def from_toml(folder: Path, text: str, *assignments: str, **environment: str) -> Config:
    """The configuration with a file in TOML, assignments and variables."""
    file = folder / "broker.toml"
    file.write_text(text)
    return Config(read_sources(file, environment, assignments), KEYS)


FLIGHTS = """
"num.partitions" = 3
[sinks.files.flights]
topics = ["flights", "weather"]
path = "/data/flights"
"""


def test_a_table_configures_a_sink(tmp_path: Path) -> None:
    config = from_toml(tmp_path, FLIGHTS)
    (sink,) = config.sinks
    assert (str(sink.name), sink.name.kind, sink.name.name) == ("files.flights", "files", "flights")
    assert (sink[TOPICS], sink[PATH], sink[ROWS]) == (("flights", "weather"), "/data/flights", 100)
    assert (sink[TOPICS_REGEX], sink[ISOLATION_LEVEL]) == (None, "read_committed")
    assert sink.is_set(PATH)
    assert not sink.is_set(ROWS)


def test_without_a_table_there_is_no_sink_and_no_key() -> None:
    config = Config.from_mapping({"sinks": {}})
    assert config.sinks == ()
    assert [key.name for key in config.keys if key.name.startswith("sinks")] == []


def test_sinks_of_several_kinds_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = FLIGHTS + '[sinks.nothing.b]\ntopics = "x"\n[sinks.nothing.a]\n"topics.regex" = "x.*"\n'
    assert [str(sink.name) for sink in from_toml(tmp_path, text).sinks] == [
        "files.flights",
        "nothing.b",
        "nothing.a",
    ]


def test_set_and_variables_are_stronger_than_the_table(tmp_path: Path) -> None:
    config = from_toml(
        tmp_path,
        FLIGHTS,
        "sinks.files.flights.rows=7",
        TIDELOG_SINKS_FILES_FLIGHTS_ROWS_MAX="5",
        TIDELOG_SINKS_FILES_FLIGHTS_FORMAT="zip",
    )
    (sink,) = config.sinks
    assert (sink[ROWS], sink[FORMAT]) == (7, "zip")
    names = ("sinks.files.flights.rows.max", "sinks.files.flights.format", "sinks.files.flights.path")
    keys = [config.keys.find(name, "broker") for name in names]
    assert [str(config.origin(key)) for key in keys if key] == [
        "--set",
        "TIDELOG_SINKS_FILES_FLIGHTS_FORMAT",
        f"{tmp_path}/broker.toml:5",
    ]


def test_set_alone_configures_a_sink() -> None:
    sources = read_sources(None, {}, ["sinks.nothing.all.topics.regex=flights-[0-9]+"])
    (sink,) = Config(sources, KEYS).sinks
    pattern = sink[TOPICS_REGEX]
    assert pattern is not None
    assert pattern.compiled.fullmatch("flights-12")
    assert not pattern.compiled.fullmatch("flights-12-")


def test_properties_files_and_programs_configure_sinks(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("sinks.nothing.a.topics=x\nsinks.nothing.a.retry.backoff.ms=5\n")
    (sink,) = Config(read_sources(file), KEYS).sinks
    assert (sink[TOPICS], sink[RETRY_BACKOFF_MS], sink[RETRY_BACKOFF_MAX_MS]) == (("x",), 5, 60_000)
    with pytest.raises(ConfigError, match="no kind of sink named files; no installed plugin offers one"):
        Config.from_mapping({"sinks": {"files": {"a": {"topics": ["x"]}}}})


def test_a_key_that_needs_another_one_warns_by_its_full_name(tmp_path: Path) -> None:
    config = from_toml(tmp_path, FLIGHTS + '"format.level" = 9\n')
    (warning,) = config.warnings
    assert "sinks.files.flights.format.level" in warning
    assert "it counts with sinks.files.flights.format = zip" in warning
    assert from_toml(tmp_path, FLIGHTS + '"format.level" = 9\nformat = "zip"\n').warnings == ()


def test_the_configuration_that_a_client_changes_keeps_its_sinks(tmp_path: Path) -> None:
    config = from_toml(tmp_path, FLIGHTS)
    config.set_dynamic({"message.max.bytes": "1000"}, {})
    assert [str(sink.name) for sink in config.sinks] == ["files.flights"]
    assert config.with_overrides({"num.partitions": 4}).sinks[0][PATH] == "/data/flights"


def test_check_dynamic_refuses_for_a_sink_what_set_dynamic_refuses(tmp_path: Path) -> None:
    config = from_toml(tmp_path, FLIGHTS)
    change = {"sinks.files.flights.retry.backoff.ms": "90000"}
    for use in (config.check_dynamic, config.set_dynamic):
        with pytest.raises(ConfigError, match=r"is above retry\.backoff\.max\.ms"):
            use(change, {})
    assert config.sinks[0][RETRY_BACKOFF_MS] == 1000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[sinks.file.flights]\ntopics = 'x'\npath = 'y'", "no kind of sink named file; did you mean files?"),
        ("[sinks.blobs.flights]\ntopics = 'x'", "named blobs; installed are: files, nothing."),
        (
            "[sinks.files.a]\ntopic = 'x'\npath = 'y'",
            "sinks.files.a.topic .*broker.toml:2.* did you mean topics",
        ),
        (
            "[sinks.files.a]\ntopics = 'x'\npfad = 'y'",
            "sinks.files.a.pfad .* no key of a sink of the kind files",
        ),
        (
            "[sinks.nothing.a]\ntopics = 'x'\npath = 'y'",
            "sinks.nothing.a.path .* of the kind nothing; `tidelog s",
        ),
        ("[sinks.files.a]\ntopics = 'x'\npath = 'y'\nrows = 0", r"rows = '0' .*broker.toml:4.*out of range"),
        ("[sinks.files.a]\ntopics = 'x'", r"\[sinks.files.a\] needs path: The directory to write to."),
        ("[sinks.files.a]\npath = 'y'", r"\[sinks.files.a\] needs topics or topics.regex: either of the two"),
        ("[sinks.nothing.a]\ntopics = 'x'\n[sinks.nothing.a.topics.regex]", "cannot|well-formed"),
        ("[sinks.nothing.a]\ntopics = ''", r"\[sinks.nothing.a\] receives no topic: topics is empty"),
        ("[sinks.nothing.a]\ntopics = ['x', 'x']", "names something twice"),
        ("[sinks.nothing.a]\ntopics = 'x/y'", "has topic name 'x/y' has a character other than"),
        ("[sinks.nothing.a]\n'topics.regex' = '('", "is no pattern: '\\(' is not a regular expression"),
        ("[sinks.nothing.a]\n'topics.regex' = '(a)\\1'", "is no pattern"),
        (
            "[sinks.nothing.a]\ntopics = 'x'\n'isolation.level' = 'committed'",
            "is none of read_committed, read_uncommitted",
        ),
        (
            "[sinks.nothing.a]\ntopics = 'x'\n'retry.backoff.ms' = 100000",
            r"sinks.nothing.a.retry.backoff.ms \(100000\) is above retry.backoff.max.ms \(60000\)",
        ),
        ("[sinks.nothing.a]", r"sinks.nothing.a \(.*\) has no settings; it needs topics"),
        (
            "[sinks.nothing]",
            r"sinks.nothing \(.*\) is no key; the settings of a sink are sinks.KIND.NAME.KEY",
        ),
        ("sinks = 5", "sinks .* is no key; the settings of a sink are"),
        ("[sinks.nothing.'a b']\ntopics = 'x'", "letters, digits, _ and - in KIND and NAME"),
    ],
)
def test_a_mistake_is_named_with_the_remedy(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        from_toml(tmp_path, text)


def test_an_unknown_kind_is_reported_once_for_each_sink(tmp_path: Path) -> None:
    text = "[sinks.file.a]\ntopics = 'x'\npath = 'y'\n[sinks.file.b]\ntopics = 'x'"
    with pytest.raises(ConfigError, match=r"has 2 problems:\n.*sinks.file.a.*\n.*sinks.file.b.*$"):
        from_toml(tmp_path, text)


@pytest.mark.parametrize("both", [("topics=x", "topics.regex=x"), ("topics=", "topics.regex=x")])
def test_topics_and_topics_regex_exclude_each_other(both: tuple[str, str]) -> None:
    sources = read_sources(None, {}, [f"sinks.nothing.a.{each}" for each in both])
    with pytest.raises(ConfigError, match=r"needs topics or topics.regex: one of the two, not both"):
        Config(sources, KEYS)


@pytest.mark.parametrize(
    "environment",
    [
        {"TIDELOG_SINKS_FILES_FLIGHT_PATH": "x"},
        {"TIDELOG_SINKS_FILES_FLIGHTS_PFAD": "x"},
        {"TIDELOG_SINKS_OTHER": "x"},
    ],
)
def test_a_variable_of_no_sink_is_refused(environment: Mapping[str, str], tmp_path: Path) -> None:
    (variable,) = environment
    with pytest.raises(ConfigError, match=f"{variable} sets no key of a configured sink"):
        from_toml(tmp_path, FLIGHTS, **environment)


@pytest.mark.parametrize("name", ["a_b", "A-b"])
def test_sinks_with_the_same_variables_are_refused(name: str, tmp_path: Path) -> None:
    text = f"[sinks.nothing.a-b]\ntopics = 'x'\n[sinks.nothing.{name}]\ntopics = 'x'"
    with pytest.raises(ConfigError, match=r"TIDELOG_SINKS_NOTHING_A_B_...: rename one of them"):
        from_toml(tmp_path, text)


def test_a_secret_is_hidden(tmp_path: Path) -> None:
    config = from_toml(tmp_path, FLIGHTS + "secret = 'moin'\n")
    key = config.keys.find("sinks.files.flights.secret", "broker")
    assert key is not None
    assert key.type.format(config[key]) == "[hidden]"


def test_problems_of_sinks_are_in_one_report_with_all_others(tmp_path: Path) -> None:
    sinks = "[sinks.files.a]\ntopics = 'x'\n[sinks.files.b]\ntopics = 'x'\npth = 'y'\n[sinks.fils.c]\n"
    text = f"'num.partitons' = 3\n{sinks}"
    with pytest.raises(ConfigError) as caught:
        from_toml(tmp_path, text)
    assert [line.split(" (")[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        "num.partitons",
        "sinks.files.b.pth",
        "sinks.fils.c",
        "[sinks.files.a] needs path: The directory to write to.",
    ]
