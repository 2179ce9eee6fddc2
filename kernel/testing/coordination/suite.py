"""The suite itself: all parts in one class, and the harness of each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio

from tidelog.kernel.testing.coordination.committing import Committing, Deleting
from tidelog.kernel.testing.coordination.consuming import Consuming
from tidelog.kernel.testing.coordination.expiring import Expiring
from tidelog.kernel.testing.coordination.grouping import Grouping
from tidelog.kernel.testing.coordination.harness import CoordinatorHarness
from tidelog.kernel.testing.coordination.pending import Pending
from tidelog.kernel.testing.coordination.remembering import Remembering
from tidelog.kernel.testing.coordination.transacting import Transacting


class CoordinationConformance(
    Committing, Consuming, Deleting, Expiring, Grouping, Pending, Remembering, Transacting
):
    """Everything that clients rely on.

    `coordinator` is the name of the backend to prove, `durable` whether its state outlives the broker.
    `settings` are configuration keys to set for it, such as `plugins` if it is not installed.
    """

    coordinator: ClassVar[str]
    durable: ClassVar[bool]
    settings: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls, *, coordinator: str = "", durable: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        if coordinator:
            cls.coordinator, cls.durable = coordinator, durable

    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncGenerator[CoordinatorHarness]:
        """Yield a running broker with the coordinator."""
        data = {"storage": "file", "log.dirs": str(tmp_path)} if self.durable else {}
        async with trio.open_nursery() as nursery:
            harness = CoordinatorHarness({"coordinator": self.coordinator, **data, **self.settings}, nursery)
            await harness.start()
            yield harness
            await harness.stop()
