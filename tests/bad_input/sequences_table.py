"""Idempotent producers that do not keep to their sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tidelog.plugins.protocol_kafka.messages import api as apis

from .batches import batch
from .case import OK, Case
from .raw_client import RawClient, produce
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends

MOST = 0x7FFFFFFF
OUT_OF_ORDER, OLD_EPOCH = "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"
Part: TypeAlias = tuple[int, int, int]
"""What a batch is: epoch, base sequence and number of records."""


def _sends(*parts: Part, producer_id: int | None = None) -> Sends:
    """Batches of one producer, with an id that the broker gave out unless one is given."""

    def build(client: RawClient) -> list[Sent]:
        producer = client.new_producer_id() if producer_id is None else producer_id
        return [_batch(client, producer, *part) for part in parts]

    return build


def _batch(client: RawClient, producer_id: int, epoch: int, sequence: int, count: int) -> Sent:
    values = [f"{epoch}/{sequence}+{number}".encode() for number in range(count)]
    return ask(apis.PRODUCE, 9, produce(client.topic, batch(values, producer=(producer_id, epoch, sequence))))


DUPLICATES = (
    Case("a duplicate", _sends((0, 0, 2), (0, 0, 2)), OK, appends=2),
    Case("a duplicate of the fifth last", _sends(*((0, n, 1) for n in range(5)), (0, 0, 1)), OK, appends=5),
    Case(
        "a duplicate of the sixth last",
        _sends(*((0, n, 1) for n in range(6)), (0, 0, 1)),
        OUT_OF_ORDER,
        appends=6,
    ),
    Case("the first half of a duplicate", _sends((0, 0, 4), (0, 0, 2)), OUT_OF_ORDER, appends=4),
    Case("the second half of a duplicate", _sends((0, 0, 4), (0, 2, 2)), OUT_OF_ORDER, appends=4),
    Case("a batch that overlaps the last", _sends((0, 0, 4), (0, 2, 4)), OUT_OF_ORDER, appends=4),
    Case("a duplicate of a batch that wraps", _sends((0, MOST, 2), (0, MOST, 2)), OK, appends=2),
)

ORDER = (
    Case("a first batch in the middle", _sends((0, 5, 1)), OK, appends=1),
    Case("a gap", _sends((0, 0, 2), (0, 3, 1)), OUT_OF_ORDER, appends=2),
    Case("sequences that wrap", _sends((0, MOST - 1, 2), (0, 0, 1)), OK, appends=3),
    Case("a batch that wraps", _sends((0, MOST, 2), (0, 1, 1)), OK, appends=3),
    Case("a step back after a batch that wraps", _sends((0, MOST, 2), (0, 0, 1)), OUT_OF_ORDER, appends=2),
    Case("producer -2", _sends((0, 0, 1), producer_id=-2), OK, appends=1),
    Case("producer -2, epoch -3 and sequence -4", _sends((-3, -4, 1), producer_id=-2), OK, appends=1),
    Case(
        "producer -2 twice with the same sequence",
        _sends((0, 7, 1), (0, 7, 1), producer_id=-2),
        OK,
        appends=2,
    ),
    Case("epoch -2", _sends((-2, 0, 1)), OLD_EPOCH),
    Case("epoch -2 of a producer in use", _sends((0, 0, 1), (-2, 1, 1)), OLD_EPOCH, appends=1),
    Case("sequence -1", _sends((0, -1, 1)), "INVALID_RECORD"),
    Case("sequence -1 after 0", _sends((0, 0, 1), (0, -1, 1)), "INVALID_RECORD", appends=1),
    Case("sequence -5", _sends((0, -5, 1)), "INVALID_RECORD"),
)

EPOCHS = (
    Case("an older epoch", _sends((3, 0, 1), (2, 1, 1)), OLD_EPOCH, appends=1),
    Case("a newer epoch from sequence 0 on", _sends((0, 0, 1), (1, 0, 1)), OK, appends=2),
    Case("a newer epoch in the middle", _sends((0, 0, 1), (1, 1, 1)), OUT_OF_ORDER, appends=1),
    Case("a duplicate of an older epoch", _sends((0, 0, 1), (1, 0, 1), (0, 0, 1)), OLD_EPOCH, appends=2),
    Case("epoch -1", _sends((-1, 0, 1)), OK, appends=1),
    Case("epoch -1 after 0", _sends((0, 0, 1), (-1, 1, 1)), OLD_EPOCH, appends=1),
)

IDS = (
    Case("an id that nobody was given", _sends((0, 0, 1), producer_id=1 << 60), OK, appends=1),
    Case("a negative id", _sends((0, 0, 1), producer_id=-5), OK, appends=1),
    Case("a sequence without an id", _sends((0, 7, 1), producer_id=-1), OK, appends=1),
)

CASES = (*DUPLICATES, *ORDER, *EPOCHS, *IDS)
