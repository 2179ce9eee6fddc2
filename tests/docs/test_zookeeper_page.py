"""docs/zookeeper.md: its example does what the page says, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from tests.docs.examples import DOCS, examples_of, run_example
from tests.kernel.config.bundle import BUNDLE
from tests.peers import free_port, running_tidelog, running_zookeeper
from tidelog.client import ConnectorSettings, ConsumerSettings, ZooKeeperEnsemble
from tidelog.plugins.client.connector.settings import ConnectorOptions
from tidelog.plugins.zookeeper.layouts import KafkaLayout

PAGE = (DOCS / "zookeeper.md").read_text()


def test_the_example_works(tmp_path: Path) -> None:
    example, _, _ = examples_of("zookeeper.md")
    with running_zookeeper(tmp_path / "zookeeper") as zookeeper:
        broker = f"127.0.0.1:{free_port()}"
        text = example.text.replace("127.0.0.1:2181", zookeeper.connect).replace("127.0.0.1:9092", broker)
        text = text.replace("topics create", f"topics create --bootstrap-server {broker}")
        assert example.prints is not None
        prints = re.sub(r"127\.0\.0\.1:2181/kafka +", f"{zookeeper.connect}/kafka  ", example.prints)
        prints = prints.replace("ZOOKEEPER           ", "ZOOKEEPER...")
        run_example(attrs.evolve(example, text=text, prints=prints), tmp_path)


def test_the_example_of_an_assignment_works(tmp_path: Path) -> None:
    _, _, example = examples_of("zookeeper.md")
    run_example(example, tmp_path)


def test_the_example_of_a_connector_works(tmp_path: Path) -> None:
    _, example, _ = examples_of("zookeeper.md")
    with running_zookeeper(tmp_path / "zookeeper") as zookeeper:
        (tmp_path / "tidelog").mkdir()
        settings = {"zookeeper.connect": f"{zookeeper.connect}/kafka"}
        with running_tidelog(tmp_path / "tidelog", settings=settings):
            text = example.text.replace("127.0.0.1:2181", zookeeper.connect)
            run_example(attrs.evolve(example, text=text), tmp_path)


def test_the_table_of_options_has_those_of_the_connector_with_their_defaults() -> None:
    table = PAGE.partition("| option of the connector |")[2].partition("\n\n")[0]
    found = dict(re.findall(r"^\| `(\w+)` \| `?(\w+)`? \|", table, flags=re.MULTILINE))
    settings = ConnectorSettings(group_id="g")
    own = {each.name for each in attrs.fields(ConnectorSettings)}
    own -= {each.name for each in attrs.fields(ConsumerSettings)}
    assert found == {name: str(getattr(settings, name)) for name in own}
    assert {*ConnectorOptions.__annotations__} >= own


def test_the_table_of_an_ensemble_has_its_options_with_their_defaults() -> None:
    table = PAGE.partition("| option of `ZooKeeperEnsemble` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| (\w+) \|", table, flags=re.MULTILINE)
    found = {name: default for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    ensemble = ZooKeeperEnsemble("a:1")
    known = {each.name for each in attrs.fields(ZooKeeperEnsemble)} - {"connect"}
    assert found == {name: str(getattr(ensemble, name)) for name in known}


def test_the_table_of_settings_has_keys_of_the_plugin() -> None:
    table = PAGE.partition("## Settings")[2].partition("\n\nThey")[0]
    names = re.findall(r"^\| `([a-z.]+)` \|", table, flags=re.MULTILINE)
    assert len(names) == 6
    assert all(BUNDLE.find(name, "broker") for name in names)


def test_the_table_of_nodes_has_folders_of_the_layout() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `/consumers`"))
    assert {*re.findall(r"`(/[a-z_/]+)`", row)} < {*KafkaLayout.folders}
