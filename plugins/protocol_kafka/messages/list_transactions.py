"""ListTransactions (key 66): list the transactional ids of a coordinator (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import LIST_TRANSACTIONS
from tidelog.plugins.schema.declare import array, int16, int32, int64, string, struct
from tidelog.plugins.schema.types import INT64, STRING


@struct(LIST_TRANSACTIONS.versions)
class ListTransactionsRequest:
    """Request those that match every filter given; empty lists, -1 and null filter nothing.

    `duration_filter`: only transactions open for longer than that many milliseconds.
    """

    state_filters: list[str] = array(STRING)
    producer_id_filters: list[int] = array(INT64)
    duration_filter: int = int64(versions="1+", default=-1)
    transactional_id_pattern: str | None = string(versions="2+", nullable="2+", default=None)


@struct()
class ListTransactionsTransaction:
    """One transactional id."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@struct(LIST_TRANSACTIONS.versions)
class ListTransactionsResponse:
    """ListTransactions response; `unknown_state_filters` are the unknown names in the state filter."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: list[str] = array(STRING)
    transaction_states: list[ListTransactionsTransaction] = array(ListTransactionsTransaction)
