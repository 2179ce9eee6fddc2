"""Send what a case sends, and tell in its table's words what the broker did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tests.deadlines import DEADLINE_S

from .case import CLOSED, OK, SILENT
from .raw import ClosedByBrokerError, RawConnection
from .requests import Sent, outcome_of, response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .case import Case
    from .raw_client import RawClient

SILENCE_S = 0.2


@attrs.frozen
class Seen:
    """What a broker did with a case, and the name of the connection in its log."""

    outcome: str
    connection: str


def run(case: Case, client: RawClient, *, may_be_silent: bool) -> Seen:
    """Send all of a case over a new connection; every request but the last has to succeed."""
    sends = case.sends(client)
    requests = [sends] if isinstance(sends, Sent) else list(sends)
    with RawConnection(client.bootstrap) as connection:
        for sent in requests[:-1]:
            outcome = _outcome(connection, sent, DEADLINE_S)
            assert outcome == OK, f"a request before the bad one was answered {outcome}"
        outcome = _outcome(connection, requests[-1], SILENCE_S if may_be_silent else DEADLINE_S)
        return Seen(outcome, connection.name)


def ask_once(sends: Callable[[RawClient], Sent], client: RawClient) -> Any:
    """Return the answer to one request over a new connection; raises ClosedByBrokerError without one."""
    sent = sends(client)
    with RawConnection(client.bootstrap) as connection:
        connection.send(sent.data)
        return response_of(sent, connection.frame(DEADLINE_S))


def _outcome(connection: RawConnection, sent: Sent, timeout_s: float) -> str:
    connection.send(sent.data)
    if sent.then_end:
        connection.end_sending()
    try:
        frame = connection.frame(timeout_s)
    except ClosedByBrokerError:
        return CLOSED
    except TimeoutError:
        return SILENT
    return outcome_of(response_of(sent, frame))
