"""Which source wins: --set, then the environment, then the file, then the default."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import bundle_config
from tidelog.kernel.config import Config, ConfigKey, ConfigKeys, OriginKind, integer, keys, read_sources
from tidelog.kernel.config.sources import settings_from_mapping
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.seams.storage import keys as segment_keys
from tidelog.plugins.protocol_kafka import keys as protocol_keys

values = st.none() | st.integers(1, 1000)


@given(assigned=values, environment=values, file=values, as_properties=st.booleans())
def test_config_takes_the_value_of_the_strongest_source(
    assigned: int | None, environment: int | None, file: int | None, as_properties: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("server.properties" if as_properties else "broker.toml")
        path.write_text("" if file is None else f"num.partitions = {file}\n")
        config = Config(
            read_sources(
                path,
                {} if environment is None else {"TIDELOG_NUM_PARTITIONS": str(environment)},
                [] if assigned is None else [f"num.partitions={assigned}"],
            ),
            ConfigKeys(),
        )
    given_values = [
        (assigned, OriginKind.COMMAND_LINE, "--set"),
        (environment, OriginKind.ENVIRONMENT, "TIDELOG_NUM_PARTITIONS"),
        (file, OriginKind.FILE, f"{path}:1"),
        (keys.NUM_PARTITIONS.default, OriginKind.DEFAULT, "default"),
    ]
    value, kind, where = next(item for item in given_values if item[0] is not None)
    origin = config.origin(keys.NUM_PARTITIONS)
    assert (config[keys.NUM_PARTITIONS], origin.kind, str(origin)) == (value, kind, where)
    assert config.is_set(keys.NUM_PARTITIONS) == (kind is not OriginKind.DEFAULT)


def test_config_takes_the_last_of_two_assignments_of_a_key() -> None:
    config = Config(read_sources(assignments=["num.partitions=1", "num.partitions=2"]), ConfigKeys())
    assert config[keys.NUM_PARTITIONS] == 2


def test_config_assignment_may_contain_equals_signs_in_its_value() -> None:
    config = Config(read_sources(assignments=["broker.rack=a=b"]), ConfigKeys())
    assert config[keys.BROKER_RACK] == "a=b"


def test_config_keys_find_variable_finds_every_broker_key() -> None:
    known = ConfigKeys()
    for key in known.of_scope("broker"):
        found = known.find_variable(key.environment_variable)
        assert found == (key, key.name)
    assert keys.MAX_CONNECTIONS_PER_IP.environment_variable == "TIDELOG_MAX_CONNECTIONS_PER_IP"


def test_config_ignores_environment_variables_that_are_no_keys() -> None:
    environment = {"TIDELOG_DEBUG": "1", "TIDELOG_CONFIG": "x", "PATH": "/bin", "TIDELOGISTICS": "1"}
    Config(read_sources(environment=environment), ConfigKeys())


def test_config_accepts_an_alias_of_a_key_in_any_source() -> None:
    for sources in (
        read_sources(assignments=["broker.id=7"]),
        read_sources(environment={"TIDELOG_BROKER_ID": "7"}),
        read_sources(environment={"TIDELOG_NODE_ID": "1"}, assignments=["broker.id=7"]),
    ):
        assert Config(sources, ConfigKeys())[keys.NODE_ID] == 7


def test_config_refuses_a_key_and_its_alias_in_one_source() -> None:
    with pytest.raises(
        ConfigError, match=r"broker\.id = '2' \(--set\): is set twice, also as node\.id; keep one"
    ):
        Config(read_sources(assignments=["node.id=1", "broker.id=2"]), ConfigKeys())


def test_settings_from_mapping_accepts_python_values() -> None:
    config = bundle_config(
        {
            "num.partitions": 3,
            "auto.create.topics.enable": False,
            "plugins": ["a", "b"],
            "broker.rack": None,
            "log": {"roll": {"ms": 5}},
        }
    )
    assert config[keys.NUM_PARTITIONS] == 3
    assert config[protocol_keys.AUTO_CREATE_TOPICS_ENABLE] is False
    assert config[keys.PLUGINS] == ("a", "b")
    assert config[keys.BROKER_RACK] is None
    assert config[segment_keys.LOG_ROLL_MS] == 5
    assert str(config.origin(keys.PLUGINS)) == "code"


def test_with_overrides_takes_precedence_over_all_sources() -> None:
    config = Config(read_sources(assignments=["num.partitions=2", "node.id=9"]), ConfigKeys())
    changed = config.with_overrides({"num.partitions": 5})
    assert (changed[keys.NUM_PARTITIONS], changed[keys.NODE_ID]) == (5, 9)
    assert config[keys.NUM_PARTITIONS] == 2


def test_settings_from_mapping_refuses_a_value_of_an_unsupported_type() -> None:
    with pytest.raises(ConfigError, match="a set is no value of a setting"):
        settings_from_mapping({"plugins": {"a"}})


RETRIES = ConfigKey(
    name="sink.retries", type=integer(0), default=3, documentation="How often a sink tries again."
)


def test_from_mapping_types_added_keys_like_those_of_the_kernel() -> None:
    config = Config.from_mapping({"sink.retries": 5}, [RETRIES])
    retries: int = config[RETRIES]
    assert retries == 5


def test_config_keys_accepts_an_identical_second_declaration_but_no_different_one() -> None:
    again = ConfigKey(
        name="sink.retries", type=integer(0), default=3, documentation="How often a sink tries again."
    )
    assert list(ConfigKeys([RETRIES, again])) == list(ConfigKeys([RETRIES]))
    other = ConfigKey(
        name="sink.retries", type=integer(1), default=3, documentation="How often a sink tries again."
    )
    with pytest.raises(
        PluginError, match=r"broker configuration key 'sink\.retries' is declared twice, differently"
    ):
        ConfigKeys([RETRIES, other])
    alias = ConfigKey(name="a", type=integer(0), default=0, documentation="", aliases=("node.id",))
    with pytest.raises(PluginError, match=r"'node\.id' is declared twice"):
        ConfigKeys([alias])


def test_config_keys_refuses_two_keys_with_the_same_environment_variable() -> None:
    one = ConfigKey(name="a.b", type=integer(), default=0, documentation="")
    other = ConfigKey(name="a-b", type=integer(), default=0, documentation="")
    with pytest.raises(PluginError, match="would both be set by the environment variable TIDELOG_A_B"):
        ConfigKeys([one, other])
