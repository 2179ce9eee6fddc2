"""ListTransactions (API 66): the transactional ids that this broker coordinates."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import each_in_steps, run_in_steps
from tidelog.kernel.seams.coordination import transactions
from tidelog.kernel.seams.coordination.transactions import TransactionFilter
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransaction,
)

STATES = {state.title: state for state in transactions.TransactionState}


async def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Return those that match every filter, and the names of unknown states in the filter."""
    unknown = [name for name in request.state_filters if name not in STATES]
    wanted = TransactionFilter(
        states=[STATES[name] for name in request.state_filters if name in STATES]
        if request.state_filters
        else None,
        producer_ids=frozenset(request.producer_id_filters),
        open_longer_than_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )
    try:
        found = await context.broker.coordinator.transactions.list(wanted)
    except BrokerError as error:
        return ListTransactionsResponse(
            error_code=error_code(error), unknown_state_filters=unknown, transaction_states=[]
        )
    states = await run_in_steps(each_in_steps(found, _state))
    return ListTransactionsResponse(error_code=0, unknown_state_filters=unknown, transaction_states=states)


def _state(description: transactions.TransactionDescription) -> ListTransactionsTransaction:
    return ListTransactionsTransaction(
        transactional_id=description.transactional_id,
        producer_id=description.producer.producer_id,
        transaction_state=description.state.title,
    )
