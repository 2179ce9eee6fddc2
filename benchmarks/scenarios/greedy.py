"""What a client that sends as fast as it can costs others while its quota throttles it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.load.greedy import GreedySpec
from benchmarks.load.loads import GREEDY
from benchmarks.load.process import pausable_load
from benchmarks.rows import Better, Row, Sample, value_at_most
from benchmarks.topics import topic_for_a_run

from .latency import acknowledge_p99

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.brokers import BrokerKind

    from .context import Bench, RunningBroker

_CLIENT_ID: Final = "greedy"
_QUOTA: Final = {"producer_byte_rate": 1024.0 * 1024}


@attrs.frozen
class GreedyClient:
    """The wait for an acknowledgement at a fixed rate, without and beside the greedy client."""

    name: str = attrs.field(default="greedy-bystander", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        title = "acknowledge p99 beside a greedy client with a quota of 1 MB/s, to that without it"
        return [Row(self.name, title, "×", Better.LOWER, (value_at_most(1.5),))]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        from tidelog.client import Admin, QuotaEntity

        records, bootstrap = bench.effort.rate_slice_records, broker.server.bootstrap
        with (
            topic_for_a_run(broker.admin) as topic,
            topic_for_a_run(broker.admin) as flooded,
            tempfile.TemporaryDirectory(dir=bench.folder) as folder,
            Admin(bootstrap) as admin,
        ):
            entity = QuotaEntity(client_id=_CLIENT_ID)
            admin.alter_quotas({entity: _QUOTA})
            alone_us = acknowledge_p99(bench, broker, topic, records)
            warm_file = Path(folder, "warm")
            spec = GreedySpec(bootstrap, flooded, _CLIENT_ID, str(warm_file))
            with pausable_load(GREEDY, spec, warm_file, bench.load_timeout_s):
                beside_us = acknowledge_p99(bench, broker, topic, records)
            admin.alter_quotas({entity: dict.fromkeys(_QUOTA)})
        return [Sample(self.name, beside_us / alone_us, {"alone_us": alone_us, "beside_us": beside_us})]
