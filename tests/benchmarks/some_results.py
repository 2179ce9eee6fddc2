"""Results of a made-up run, for reports."""

from __future__ import annotations

from benchmarks.brokers import KAFKA, TIDELOG
from benchmarks.results import MACHINE, Results
from benchmarks.rows import Better, Row, Sample, ratio_at_least, value_at_most

LIMIT = Row("limit", "bare loop", "MB/s", Better.NEITHER)
PRODUCE = Row("produce", "produce it", "MB/s", Better.HIGHER, (ratio_at_least(1.5),), limit="limit")
READY = Row("ready", "be ready", "s", Better.LOWER, (value_at_most(0.4),))
NEVER_MEASURED = Row("never", "never measured", "s", Better.LOWER)


def some_results() -> Results:
    """tidelog at 300 MB/s, Apache Kafka at 100 MB/s, the machine at 1,000 MB/s; ready was not compared."""
    results = Results((LIMIT, PRODUCE, READY, NEVER_MEASURED))
    results.add(MACHINE, [Sample("limit", 1000.0)])
    for value in (280.0, 290.0, 310.0, 300.0, 300.0, 310.0):
        busy: dict[str, object] = {
            "client_cores": 1.0,
            "broker_cores": 0.5,
            "other_cores": 0.2,
            "other_share": 0.1,
        }
        results.add(TIDELOG, [Sample("produce", value, busy)])
        results.add(KAFKA, [Sample("produce", value / 3, {"other_share": 0.25})])
    results.add(TIDELOG, [Sample("ready", 0.5)])
    return results
