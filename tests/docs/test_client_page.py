"""docs/client.md: its examples do what the page says, and its tables have every option and partitioner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example
from tidelog.client import Admin
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.consumer.settings import ConsumerOptions, ConsumerSettings
from tidelog.plugins.client.producer.partitioners import PARTITIONERS
from tidelog.plugins.client.producer.settings import ProducerOptions, ProducerSettings

ADDRESS = "127.0.0.1:9092"


TYPES = {"AclBinding", "ConfigResource", "DelegationToken", "NewScramPassword", "ScramUser"}
"""Named in the table of the admin client beside its methods."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """The broker that a reader has at port 9092."""
    with broker_in_thread() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a reader works."""
    return tmp_path_factory.mktemp("client")


@pytest.mark.parametrize("example", examples_of("client.md"), ids=str)
def test_the_example_works(example: Example, folder: Path, bootstrap: str) -> None:
    assert ADDRESS in example.text
    run_example(attrs.evolve(example, text=example.text.replace(ADDRESS, bootstrap)), folder)


def options_of(heading: str) -> dict[str, str]:
    """Options with their defaults in the table of a section."""
    table = (DOCS / "client.md").read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE):
        given = defaults.split(", ")
        for number, name in enumerate(re.findall(r"`(\w+)`", names)):
            found[name] = given[min(number, len(given) - 1)].strip("`")
    return found


def test_the_page_has_every_option_of_the_consumer_with_its_default() -> None:
    found = options_of("Options of the consumer") | options_of("Connections with TLS")
    settings = ConsumerSettings()
    known = {field.name: getattr(settings, field.name) for field in attrs.fields(ConsumerSettings)}
    shown = {name: "none" if value in ("", ()) else str(value) for name, value in known.items()}
    shown["partition_assignment_strategy"] = " and ".join(settings.strategies)
    assert found == shown
    assert set(ConsumerOptions.__annotations__) == set(known)


def test_the_page_has_every_option_with_its_default() -> None:
    found = options_of("Options of the producer") | options_of("Connections with TLS")
    settings = ProducerSettings()
    known = {field.name: getattr(settings, field.name) for field in attrs.fields(ProducerSettings)}
    assert found == {name: "none" if value == () else str(value) for name, value in known.items()}
    assert set(ProducerOptions.__annotations__) == set(known)


def test_the_page_has_every_partitioner() -> None:
    table = (DOCS / "client.md").read_text().partition("## Partitioners")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    names = {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row)}
    assert names == set(PARTITIONERS)


def test_the_page_has_every_method_of_the_admin_client() -> None:
    section = (DOCS / "client.md").read_text().partition("## Administer a cluster")[2].partition("\n## ")[0]
    table = section.partition("| methods |")[2].partition("\n\n")[0]
    methods = {name for name in vars(Admin) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", table)) - TYPES == methods - {"run", "close"}
