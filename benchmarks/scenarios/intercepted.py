"""What interceptors cost: a producer's speed beside that on a broker without any."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.brokers import NO_SETTINGS, TIDELOG, TidelogKind
from benchmarks.interceptors import HEADERS, RECORDS
from benchmarks.rows import Better, Row, Sample, Target, value_at_least

from .context import Bench, started_broker
from .side_by_side import produce_speeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.brokers import BrokerKind

_ROOT: Final = Path(__file__).parents[2]
_TITLE: Final = "raw client: produce 16KB batches with an interceptor {}, in the speed without one"


@attrs.frozen
class InterceptedProduce:
    """Two brokers take turns, one without an interceptor."""

    name: str
    title: str
    settings: Mapping[str, str]
    targets: tuple[Target, ...] = ()

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, _TITLE.format(self.title), "×", Better.HIGHER, self.targets)]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        # The broker imports the plugin from this checkout.
        launcher = ("env", f"PYTHONPATH={_ROOT}", *TidelogKind().launcher)
        intercepting = attrs.evolve(TidelogKind(), launcher=launcher)
        settings = {"plugins": "benchmarks.interceptors", **self.settings}
        with (
            started_broker(kind, work_dir / "without", NO_SETTINGS) as without,
            started_broker(intercepting, work_dir / "with", settings) as intercepted,
        ):
            pairs = produce_speeds(bench, without, intercepted)
        medians = {
            "without": median(bare for bare, _ in pairs),
            "with": median(speed for _, speed in pairs),
        }
        return [Sample(self.name, median(speed / bare for bare, speed in pairs), dict(medians))]


def intercepted() -> Sequence[InterceptedProduce]:
    """Return one that looks at headers, one that looks at each record, and one that is for other topics."""
    table = "interceptors.measured"
    return [
        InterceptedProduce(
            "intercepted-headers",
            "that looks at headers only",
            {f"{table}.type": HEADERS},
            (value_at_least(0.95),),
        ),
        InterceptedProduce("intercepted-records", "that looks at each record", {f"{table}.type": RECORDS}),
        InterceptedProduce(
            "intercepted-others",
            "that is for other topics",
            {f"{table}.type": HEADERS, f"{table}.topics.regex": "none"},
            (value_at_least(0.98),),
        ),
    ]
