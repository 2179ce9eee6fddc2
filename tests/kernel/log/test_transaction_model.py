"""Any sequence of transactions, restarts and truncations leaves what the model says, in memory."""

from __future__ import annotations

from hypothesis import settings

from tests.kernel.log.parts import new_store
from tests.kernel.log.transaction_model import CONFIG, TransactionalLog
from tidelog.kernel.seams.storage import PartitionStore


class InMemory(TransactionalLog):
    """Above a store that outlives the partition."""

    def __init__(self) -> None:
        self.kept = new_store(CONFIG)
        super().__init__()

    def store(self, *, clean: bool) -> PartitionStore:
        """Always the same."""
        return self.kept


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
