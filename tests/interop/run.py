"""Runs scenarios with clients against one server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tests.peers import KafkaServer, PeerUnavailableError, TidelogServer, running_kafka, running_tidelog

from .reference import Place, Reference
from .results import FAILS, LACKS, PASSES, Cell
from .session import DriverEndedError, Session

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

    from .client import Client
    from .scenarios import Scenario

Report: TypeAlias = Callable[[str, str, Cell], None]

CELL_TIMEOUT_S: Final = 240.0
"""A Spark that starts on a busy machine and a client that gives up after a minute fit in."""
# Records of the suite have times of their own, and no member waits for others that might come.
SETTINGS: Final = {"log.retention.ms": "-1", "group.initial.rebalance.delay.ms": "0"}
_REASON_LENGTH: Final = 300
_numbers = itertools.count(int(time.time()) % 1_000_000)


@contextmanager
def running_server(server: str, kafka: str, work_dir: Path) -> Generator[KafkaServer | TidelogServer]:
    """Run tidelog, or Apache Kafka of release `kafka`."""
    if server == "tidelog":
        with running_tidelog(work_dir, settings=SETTINGS) as tidelog:
            yield tidelog
    else:
        with running_kafka(work_dir, version=kafka, settings=SETTINGS) as peer:
            yield peer


@attrs.frozen
class ClientRun:
    """One client's scenarios, in the order of the table."""

    client: Client
    bootstrap: str
    log_path: Path

    def run(self, scenarios: Sequence[Scenario], report: Report) -> None:
        """Report a cell for each scenario."""
        session: Session | None = None
        unavailable = ""
        try:
            session = Session(self.client.start(self.bootstrap), self.log_path)
        except PeerUnavailableError as error:
            unavailable = str(error)
        reference = Reference(self.bootstrap)
        for scenario in scenarios:
            name = f"{scenario.section}: {scenario.name}"
            reason = self.client.reason_against(scenario) or unavailable
            if reason or session is None:
                report(self.client.name, name, Cell(LACKS, reason))
            else:
                report(self.client.name, name, self._cell(scenario, session, reference))
        if session is not None:
            session.close()

    def _cell(self, scenario: Scenario, session: Session, reference: Reference) -> Cell:
        number = next(_numbers)
        place = Place(f"topic-{number}", f"group-{number}")
        fault = ""
        try:
            scenario.prepare(reference, place)
            words = (scenario.action, scenario.argument, place.topic, place.group)
            answer = session.ask(words, CELL_TIMEOUT_S)
            fault = scenario.fault_of(_without_address(answer, self.bootstrap))
            if not fault:
                scenario.check(reference, place)
        except DriverEndedError as error:
            fault = str(error)
        except AssertionError as error:
            fault = str(error)
        except Exception as error:
            fault = f"reference client: {type(error).__name__}: {error}"
        return Cell(FAILS, _shortened(fault, place, self.bootstrap)) if fault else Cell(PASSES)


def _without_address(answer: object, bootstrap: str) -> dict[str, object]:
    """Return the answer with BROKER in the place of the broker's address."""
    assert isinstance(answer, dict)
    return {
        name: ["BROKER" if each == bootstrap else each for each in found] if name == "brokers" else found
        for name, found in answer.items()
    }


def _shortened(fault: str, place: Place, bootstrap: str) -> str:
    """Return a reason without what differs from run to run."""
    for name, general in ((place.topic, "TOPIC"), (place.group, "GROUP"), (bootstrap, "BROKER")):
        fault = fault.replace(name, general)
    return " ".join(fault.split())[:_REASON_LENGTH]
