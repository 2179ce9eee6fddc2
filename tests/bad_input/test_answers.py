"""Every case of bad input: tidelog and Apache Kafka both do what the tables say, and nothing else suffers."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.deadlines import DEADLINE_S, wait_until
from tests.tables import for_each
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest

from . import (
    changes_table,
    commits_table,
    configs_table,
    consumer_groups_table,
    coordinators_table,
    epochs_table,
    fetch_table,
    frames_table,
    groups_table,
    offsets_table,
    produce_table,
    sequences_table,
    topics_table,
    transactions_table,
)
from .case import ALL_VERSIONS, CLOSED, NOTHING, OK, SILENT, Case
from .equal_table import EQUALS, Equal, comparable
from .raw_client import RawClient
from .requests import ask
from .running import ask_once, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.peers import KafkaServer, TidelogServer

TABLES = {
    "frames": frames_table.CASES,
    "produce": produce_table.CASES,
    "sequences": sequences_table.CASES,
    "fetch": fetch_table.CASES,
    "offsets": offsets_table.CASES,
    "topics": topics_table.CASES,
    "coordinators": coordinators_table.CASES,
    "configs": configs_table.CASES,
    "changes": changes_table.CASES,
    "epochs": epochs_table.CASES,
    "groups": groups_table.CASES,
    "commits": commits_table.CASES,
    "transactions": transactions_table.CASES,
    "consumer-groups": consumer_groups_table.CASES,
}
CASES = [
    pytest.param(table, case, id=f"{table}: {case.name}") for table, cases in TABLES.items() for case in cases
]
CASES_OF_OLD_VERSIONS = [
    pytest.param(table, case, id=f"{table}: {case.name}")
    for table, cases in TABLES.items()
    for case in cases
    if case.tidelog is not None and case.tidelog.why == ALL_VERSIONS
]
REFUSALS_ARE_LOGGED = {"produce", "sequences"}
MOST_LOGGED_CHARACTERS = 10_000


@attrs.define
class RawClients:
    """A client and a topic for each table, so that what one leaves in its log does not meet the next."""

    bootstrap: str
    _clients: dict[str, RawClient] = attrs.field(factory=dict[str, RawClient])

    def of(self, table: str) -> RawClient:
        """Return the client of a table, which is connected when it is first asked for."""
        if table not in self._clients:
            self._clients[table] = RawClient(self.bootstrap, f"orders-{table}")
        return self._clients[table]

    def close(self) -> None:
        """End all of them."""
        for client in self._clients.values():
            client.close()


@pytest.fixture(scope="module")
def tidelog_clients(tidelog: TidelogServer) -> Iterator[RawClients]:
    """The clients of tidelog."""
    clients = RawClients(tidelog.bootstrap)
    yield clients
    clients.close()


@pytest.fixture(scope="module")
def kafka_clients(kafka: KafkaServer) -> Iterator[RawClients]:
    """The clients of Apache Kafka."""
    clients = RawClients(kafka.bootstrap)
    yield clients
    clients.close()


@pytest.fixture(scope="module")
def older_kafka_clients(older_kafka: KafkaServer) -> Iterator[RawClients]:
    """The clients of an older Apache Kafka."""
    clients = RawClients(older_kafka.bootstrap)
    yield clients
    clients.close()


@pytest.mark.parametrize(("table", "case"), CASES)
def test_tidelog(table: str, case: Case, tidelog_clients: RawClients, tidelog: TidelogServer) -> None:
    client = tidelog_clients.of(table)
    log_path = tidelog.process.log_path
    logged_before = log_path.stat().st_size
    outcome, connection = _run(case, client, of_tidelog=True)
    if case.log:
        _wait_for_complaint(log_path, logged_before, connection, case.log)
    elif table in REFUSALS_ARE_LOGGED and set(outcome.split(",")) - {OK, NOTHING, SILENT}:
        _wait_for_complaint(log_path, logged_before, connection, "")
    logged = _logged(log_path, logged_before)
    assert "Traceback" not in logged
    assert len(logged) < MOST_LOGGED_CHARACTERS


@pytest.mark.long
@pytest.mark.parametrize(("table", "case"), CASES)
def test_apache_kafka(table: str, case: Case, kafka_clients: RawClients) -> None:
    _run(case, kafka_clients.of(table), of_tidelog=False)


@pytest.mark.long
@pytest.mark.parametrize("equal", EQUALS, ids=lambda equal: equal.name)
def test_answers_are_equal_to_those_of_apache_kafka_in_every_field(
    equal: Equal, tidelog_clients: RawClients, kafka_clients: RawClients
) -> None:
    ours, theirs = (
        comparable(ask_once(equal.sends, clients.of("equal")), equal.differs)
        for clients in (tidelog_clients, kafka_clients)
    )
    assert ours == theirs


@pytest.mark.long
def test_api_versions_has_the_levels_of_features_that_apache_kafka_has(
    tidelog_clients: RawClients, kafka_clients: RawClients
) -> None:
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    ours, theirs = (
        {
            feature.name: feature.max_version_level
            for feature in ask_once(
                lambda _: ask(API_VERSIONS, 4, request), clients.of("equal")
            ).finalized_features
        }
        for clients in (tidelog_clients, kafka_clients)
    )
    # The quorum of this Kafka is configured.
    assert ours.pop("kraft.version") == 1
    assert ours == theirs


@pytest.mark.long
@pytest.mark.parametrize(("table", "case"), CASES_OF_OLD_VERSIONS)
def test_old_versions_are_answered_as_by_the_last_kafka_that_did(
    table: str, case: Case, older_kafka_clients: RawClients
) -> None:
    _run(case, older_kafka_clients.of(table), of_tidelog=True)


@for_each("cases", TABLES.values(), ids=TABLES.keys())
def test_every_closed_connection_is_told_in_the_log(cases: tuple[Case, ...]) -> None:
    for case in cases:
        outcome, _ = case.expected(of_tidelog=True)
        client_ended_it = case in frames_table.GOODBYES
        assert bool(case.log) == (outcome == CLOSED and not client_ended_it), case.name


def _run(case: Case, client: RawClient, *, of_tidelog: bool) -> tuple[str, str]:
    """Run a case; whatever it does, the log holds what it held and another connection is served as before."""
    expected, appends = case.expected(of_tidelog=of_tidelog)
    content, end = client.content(), client.end_offset()
    seen = run(case, client, may_be_silent=expected == SILENT)
    assert seen.outcome == expected
    if seen.outcome == SILENT:  # nothing says when it was carried out
        wait_until(lambda: client.end_offset() >= end + appends, "what was sent without an answer")
    assert client.end_offset() == end + appends
    assert client.content().startswith(content)
    return seen.outcome, seen.connection


def _wait_for_complaint(log_path: Path, since: int, connection: str, reason: str) -> None:
    wanted = re.compile(rf" {re.escape(connection)} at PLAINTEXT: .*({reason})")
    deadline = time.monotonic() + DEADLINE_S
    while not wanted.search(_logged(log_path, since)):
        assert time.monotonic() < deadline, f"no {wanted.pattern!r} in {_logged(log_path, since)!r}"
        time.sleep(0.01)


def _logged(log_path: Path, since: int) -> str:
    with log_path.open("rb") as log:
        log.seek(since)
        return log.read().decode()
