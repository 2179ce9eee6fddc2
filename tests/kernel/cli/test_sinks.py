"""`tidelog sinks`, and what other commands show of sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.cli.running import printed_json, tidelog, write_plugin

PLUGIN = """
    from tidelog.kernel import ConfigKey, hookimpl
    from tidelog.kernel.config import integer, password, string

    class Files:
        name = "files"
        keys = (
            ConfigKey(name="path", type=string(), default="", required=True, documentation="Where to."),
            ConfigKey(name="rows", type=integer(1), default=9, documentation="Rows of a file."),
            ConfigKey(name="secret", type=password(), default=None, documentation="A password."),
        )
        def create(self, context): raise NotImplementedError

    class Nothing:
        name = "nothing"
        keys = ()
        def create(self, context): raise NotImplementedError

    @hookimpl
    def tidelog_sinks():
        return [Nothing(), Files()]
"""
FILE = """
[sinks.files.flights]
topics = ["flights", "weather"]
path = "/data"
secret = "moin"
[sinks.nothing.all]
"topics.regex" = "f.*"
"isolation.level" = "read_uncommitted"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A plugin with two kinds, and a configuration with a sink of each."""
    tmp_path.joinpath("broker.toml").write_text(FILE)
    return {**write_plugin(tmp_path, "files", PLUGIN), "TIDELOG_CONFIG": str(tmp_path / "broker.toml")}


def test_sinks_lists_sinks_and_kinds(environment: dict[str, str]) -> None:
    done = tidelog("sinks", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:3] == [
        ["SINK", "TOPICS", "ISOLATION", "LEVEL"],
        ["files.flights", "flights,", "weather", "read_committed"],
        ["nothing.all", "all", "that", "match", "f.*", "read_uncommitted"],
    ]
    assert lines[4:7] == [
        ["KIND", "PLUGIN", "KEYS"],
        ["files", "files", "path*,", "rows,", "secret"],
        ["nothing", "files", "-"],
    ]
    assert "Keys of every sink: topics, topics.regex, isolation.level, " in done.stdout


def test_sinks_as_json_has_settings_and_keys(environment: dict[str, str]) -> None:
    found = printed_json("sinks", **environment)
    assert found["sinks"][0] == {
        "kind": "files",
        "name": "flights",
        "settings": {"topics": "flights,weather", "path": "/data", "secret": "[hidden]"},
        "status": None,
    }
    assert [(kind["kind"], kind["plugin"]) for kind in found["kinds"]] == [
        ("files", "files"),
        ("nothing", "files"),
        ("spark", "spark_sink"),
    ]
    assert found["kinds"][0]["keys"][0] == {
        "name": "path",
        "type": "string",
        "allowed": "",
        "default": None,
        "required": True,
        "documentation": "Where to.",
    }


def test_sinks_without_any_says_so() -> None:
    done = tidelog("sinks", TIDELOG_PLUGINS_BLOCKED="")
    assert done.stdout.startswith("No sink is configured.\n")


def test_config_has_the_keys_of_sinks_and_of_kinds(environment: dict[str, str]) -> None:
    listed = {item["name"]: item for item in printed_json("config", **environment)}
    flights = listed["sinks.files.flights.path"]
    assert (flights["value"], flights["environment"], flights["required"]) == (
        "/data",
        "TIDELOG_SINKS_FILES_FLIGHTS_PATH",
        True,
    )
    assert listed["sinks.files.flights.secret"]["value"] == "[hidden]"
    assert listed["sinks.files.NAME.rows"]["default"] == "9"
    assert listed["sinks.nothing.NAME.topics"]["environment"] is None
    shown = tidelog("config", "sinks.files.NAME.path", **environment).stdout
    assert "has to be set" in shown


def test_plugins_marks_a_kind_that_is_in_use(environment: dict[str, str]) -> None:
    (plugin,) = [item for item in printed_json("plugins", **environment) if item["name"] == "files"]
    assert plugin["offers"] == [
        {"seam": "sink", "name": kind, "active": True, "reason": f"there is a table [sinks.{kind}.NAME]"}
        for kind in ("nothing", "files")
    ]
    unused = printed_json("plugins", **{**environment, "TIDELOG_CONFIG": ""})
    assert [item["active"] for item in unused if item["name"] == "files"] == [False]


def test_serve_names_what_is_wrong_with_a_sink(environment: dict[str, str]) -> None:
    done = tidelog("serve", "--set", "sinks.files.flights.rowz=5", **environment)
    assert done.returncode == 2
    assert "sinks.files.flights.rowz (--set) is no key of a sink of the kind files; did you mean rows?" in (
        done.stderr
    )
