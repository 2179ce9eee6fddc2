"""Meters of the broker as instruments of OpenTelemetry, for any reader of its SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import ObservableCounter, ObservableGauge
from opentelemetry.sdk.metrics.export import CardinalityLimits

from tidelog.kernel.seams.meters import MeterFamily, MeterKind

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider

    from tidelog.kernel.seams.meters import Meters

MOST_VALUES: Final = 1_000_000
"""Values of one name, for as many partitions."""
CARDINALITY_LIMITS: Final[CardinalityLimits] = {
    ObservableCounter: MOST_VALUES,
    ObservableGauge: MOST_VALUES,
}
"""For the reader: by default the SDK adds up all values of a name beyond the first 2,000."""


class MeterInstruments:
    """Observable counters and gauges with the names that `/metrics` has.

    A reader that collects, made with `CARDINALITY_LIMITS`, gets the values of the last `refresh`: so all of
    them are of one moment.
    """

    def __init__(self, meters: Meters, provider: MeterProvider, version: str) -> None:
        self._meters = meters
        self._meter: Meter = provider.get_meter("tidelog", version)
        self._families: dict[str, MeterFamily] = {}
        self._known: set[str] = set()

    def refresh(self) -> None:
        """Read all meters, blocking; families that are new become instruments."""
        self._families = {family.name: family for family in self._meters.collect()}
        for family in self._families.values():
            if family.name not in self._known:
                self._known.add(family.name)
                self._create(family)

    def _create(self, family: MeterFamily) -> None:
        callbacks = [self._observer(family.name)]
        if family.kind is MeterKind.COUNTER:
            self._meter.create_observable_counter(family.name, callbacks, description=family.help)
        else:
            self._meter.create_observable_gauge(family.name, callbacks, description=family.help)

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            family = self._families.get(name)
            for value, labels in () if family is None else family.samples:
                yield Observation(value, dict(labels))

        return observe
