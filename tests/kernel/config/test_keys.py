"""Each key is read somewhere."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from tests.kernel.config.bundle import BUNDLE
from tests.tables import for_each
from tidelog.kernel.config import Config, ConfigKey, declared_keys, keys
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
from tidelog.plugins.coordinator.assignors.range import RangeAssignor
from tidelog.plugins.coordinator.assignors.uniform import UniformAssignor
from tidelog.plugins.coordinator.consumer_groups import keys as consumer_groups
from tidelog.plugins.mirror.client_keys import SOURCE_KEYS, TARGET_KEYS
from tidelog.plugins.spark_sink.pipelines.keys import KEYS as PIPELINE_KEYS

ROOT = Path(__file__).parents[3]
KEY_MODULES = sorted(
    path
    for folder in ("kernel", "plugins")
    for path in (ROOT / folder).rglob("*.py")
    # A skeleton is copied into a package of its own.
    if "skeletons" not in path.parts
    and re.search(r"^[A-Z_]+(: Final)? = ConfigKey\(", path.read_text(), re.MULTILINE)
)
ONLY_ALLOWED_VALUE = {
    "default.replication.factor": "a single broker takes no value but 1",
    "zookeeper.ssl.keystore.type": "the client of ZooKeeper reads no store but PEM",
    "zookeeper.ssl.truststore.type": "the client of ZooKeeper reads no store but PEM",
}
BOUNDS_OF_OTHER_KEYS = {
    f"group.consumer.{bound}.{what}": f"group.consumer.{what} is refused at start outside of it"
    for bound in ("min", "max")
    for what in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
}


def declared() -> dict[str, tuple[str, ConfigKey[object]]]:
    """Each key's constant and the key itself, by the key's name."""
    found: dict[str, tuple[str, ConfigKey[object]]] = {}
    for path in KEY_MODULES:
        module = _imported(path)
        for constant, value in vars(module).items():
            if isinstance(value, ConfigKey) and constant.isupper():
                found[value.name] = constant, value
    return found


def _imported(path: Path) -> ModuleType:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return importlib.import_module(".".join(("tidelog", *parts)).removesuffix(".__init__"))


@cache
def names_in_use() -> frozenset[str]:
    """Names and attributes that are read outside of the modules that declare keys, or by their functions."""
    outside = frozenset(
        name
        for folder in ("kernel", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        if path not in KEY_MODULES and "testing" not in path.parts
        for name in _names_read(ast.parse(path.read_text()))
    )
    functions = (
        node
        for path in KEY_MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in outside
    )
    return outside.union(*map(_names_read, functions))


def _names_read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


ASSIGNORS: dict[str, PartitionAssignor] = {"uniform": UniformAssignor(), "range": RangeAssignor()}
KEYS = declared()
GIVES_DEFAULT_OF = {default.key.name: key for _, key in KEYS.values() for default in key.broker_defaults}


def is_read(name: str) -> bool:
    """Whether the code reads a key: by its constant, or as a topic's default."""
    constant, _ = KEYS[name]
    topic_key = GIVES_DEFAULT_OF.get(name)
    return constant in names_in_use() or (topic_key is not None and is_read(topic_key.name))


def test_config_keys_of_kernel_and_plugins_are_all_found() -> None:
    assert len(KEYS) > 90
    assert {"log.dirs", "flush.ms", "group.max.size", "metadata.max.retention.ms"} <= set(KEYS)
    assert keys.LOG_INITIAL_TASK_DELAY_MS.name in KEYS


def test_config_keys_of_all_modules_are_in_the_default_bundle() -> None:
    """Keys that are kept for tools alone, and without effect, need no constants, nor do those of clients."""
    of_tables = chain.from_iterable(BUNDLE.table_keys.values())
    bundle = (*BUNDLE, *COMMON_SINK_KEYS, *PIPELINE_KEYS, *of_tables)
    of_mirrored_clusters = {key.name for key in (*SOURCE_KEYS, *TARGET_KEYS)}
    in_bundle = {key.name for key in bundle if not key.inert} - of_mirrored_clusters
    assert {key.name for _, key in KEYS.values()} == in_bundle


@for_each("name", sorted(BOUNDS_OF_OTHER_KEYS))
def test_a_bound_refuses_another_keys_value(name: str) -> None:
    bounded = KEYS[name.replace(".min.", ".").replace(".max.", ".")][1].default
    assert isinstance(bounded, int)
    beyond = bounded + (1 if ".min." in name else -1)
    consumer_groups.check(Config.from_mapping({name: bounded}, declared_keys(consumer_groups)), ASSIGNORS)
    with pytest.raises(ConfigError, match=name):
        consumer_groups.check(Config.from_mapping({name: beyond}, declared_keys(consumer_groups)), ASSIGNORS)


@for_each("name", sorted(KEYS.keys() - ONLY_ALLOWED_VALUE.keys() - BOUNDS_OF_OTHER_KEYS.keys()))
def test_config_keys_are_read_by_the_code(name: str) -> None:
    assert is_read(name), f"{name} is declared, and nothing reads it"
