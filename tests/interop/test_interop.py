"""A quick part of the suite, with the clients that start fast; and its own machinery."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from .client import Client, DriverCommand
from .clients import CLIENTS
from .page import render
from .reference import Place, Reference
from .results import FAILS, LACKS, PASSES, Cell, Results
from .run import ClientRun, running_server
from .scenarios import SCENARIOS, Scenario
from .session import DriverEndedError, Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUICK_CLIENTS = ("confluent-kafka", "aiokafka")
QUICK = (
    "Admin: create topic",
    "Produce: gzip",
    "Consume: seek by time",
    "Groups: resume",
    "Transactions: abort",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker."""
    with running_server("tidelog", "", tmp_path_factory.mktemp("broker")) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("name", QUICK_CLIENTS)
def test_quick_scenarios_pass(name: str, bootstrap: str, tmp_path: Path) -> None:
    client = next(each for each in CLIENTS if each.name.startswith(name))
    scenarios = [each for each in SCENARIOS if f"{each.section}: {each.name}" in QUICK]
    cells = _run(client, scenarios, bootstrap, tmp_path)
    assert cells == dict.fromkeys(QUICK, Cell(PASSES))


def test_run_reports_wrong_answers_wrong_outcomes_and_reasons(bootstrap: str, tmp_path: Path) -> None:
    def missing(reference: Reference, place: Place) -> None:
        raise AssertionError(f"{reference.partitions(place.topic)} partitions of {place.topic}")

    answer = """'{"error": "x"}' if "bad" in line else "{}\""""
    program = f"for line in open(0): print({answer}, flush=True)"
    client = Client(
        "a driver", "test", lambda _: DriverCommand([sys.executable, "-c", program]), {"old": "too old"}
    )
    nothing = SCENARIOS[0].prepare
    cells = _run(
        client,
        [
            Scenario("A", "fine", "fine", nothing),
            Scenario("A", "answer", "fine", nothing, {"listed": True}),
            Scenario("A", "outcome", "fine", nothing, check=missing),
            Scenario("A", "error", "bad", nothing),
            Scenario("A", "lacking", "old", nothing),
        ],
        bootstrap,
        tmp_path,
    )
    assert cells == {
        "A: fine": Cell(PASSES),
        "A: answer": Cell(FAILS, "answered {'listed': None}"),
        "A: outcome": Cell(FAILS, "0 partitions of TOPIC"),
        "A: error": Cell(FAILS, "x"),
        "A: lacking": Cell(LACKS, "too old"),
    }


def test_session_starts_a_driver_again_that_ended(tmp_path: Path) -> None:
    answer = "'{}' if 'go' in input() else sys.exit('an accident')"
    program = f"import sys; print({answer}, flush=True); input(); input()"
    session = Session(DriverCommand([sys.executable, "-c", program]), tmp_path / "log")
    with pytest.raises(DriverEndedError, match="an accident"):
        session.ask(("stop",), 60)
    assert session.ask(("go",), 60) == {}
    with pytest.raises(DriverEndedError, match="no answer"):
        session.ask(("go",), 0.01)
    session.close()


def test_refusal_is_recognised_by_its_name() -> None:
    refused = Scenario("A", "a", "a", SCENARIOS[0].prepare, refusals=("topicalreadyexists", "error36"))
    for error in ("TopicAlreadyExistsError: t", "TOPIC_ALREADY_EXISTS", "error 36"):
        assert not refused.fault_of({"error": error})
    assert refused.fault_of({})
    assert refused.fault_of({"error": "another"})


def test_page_has_signs_reasons_and_the_comparison(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    client = CLIENTS[0]
    for server, cell in (("tidelog", Cell(FAILS, "too | late")), ("kafka", Cell(PASSES))):
        results.put(server, client.name, "Admin: create topic", cell)
    results.put("tidelog", client.name, "Admin: list topics", Cell(LACKS, "no call"))
    results.put("tidelog", client.name, "Groups: resume", Cell(PASSES))
    results.save()
    page = render(Results(tmp_path / "results.json"), CLIENTS)
    assert f"| {client.name} | ✗ |  | – |" in page
    assert f"{client.kafka}: differs in create topic" in page
    assert f"| too \\| late | Admin: create topic | {client.name} |" in page
    assert f"| no call | Admin: list topics | {client.name} |" in page
    assert "1 clients, 3 cells: 1 pass, 1 fail, 1 are something" in page


def test_every_reason_against_a_scenario_names_an_action() -> None:
    actions = {each.action for each in SCENARIOS} | {f"{each.action} {each.argument}" for each in SCENARIOS}
    assert {each.name: set(each.lacks) - actions for each in CLIENTS if set(each.lacks) - actions} == {}


def _run(client: Client, scenarios: list[Scenario], bootstrap: str, tmp_path: Path) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    run = ClientRun(client, bootstrap, tmp_path / "driver.log")
    run.run(scenarios, lambda _, name, cell: cells.update({name: cell}))
    return cells
