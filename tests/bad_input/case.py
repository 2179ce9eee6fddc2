"""What a case of bad input is: what is sent, and what Apache Kafka does about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .raw_client import RawClient
    from .requests import Sent

CLOSED = "closed"
"""The broker ends the connection and answers nothing."""
SILENT = "silent"
"""No answer, and the connection stays open."""
OK = "NONE"
NOTHING = ""
"""An answer that tells of no topic and no partition."""

Sends: TypeAlias = "Callable[[RawClient], Sent | Sequence[Sent]]"


@attrs.frozen
class Differs:
    """What tidelog does otherwise than Kafka, and why it should."""

    outcome: str
    why: str
    appends: int = 0


ALL_VERSIONS = "tidelog serves every version from 0 on, Kafka 4 dropped the oldest"
KAFKA_STUMBLES = "Kafka runs into an exception of its own instead of an answer that a client can use"
NO_TRANSACTIONS = "what names no transactional id, or no producer, is part of no transaction"
NO_SHARE_GROUPS = "share groups are not coordinated here"
NOTHING_MALFORMED = "no client writes that, so the request was garbled on the way or is something else"


@attrs.frozen
class Case:
    """Something bad that a client may send, after things that may be good.

    `kafka` is what Apache Kafka 4.4.0 does after the last request: CLOSED, SILENT or the names of the error
    codes in its answer, with commas between. `log` is what tidelog's log has to tell when it closes the
    connection (a regular expression). `appends` is how many records the case rightly leaves in the log.
    """

    name: str
    sends: Sends
    kafka: str
    log: str = ""
    appends: int = 0
    tidelog: Differs | None = None

    def expected(self, *, of_tidelog: bool) -> tuple[str, int]:
        """Outcome and number of records that are appended."""
        if of_tidelog and self.tidelog is not None:
            return self.tidelog.outcome, self.tidelog.appends
        return self.kafka, self.appends
