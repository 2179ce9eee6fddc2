"""The policy keeps the contract of its seam, and what has not expired."""

import expiring_records
import pytest

from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.testing.cleanup import CleanupPolicyConformance
from tidelog.plugins.client import NewRecord, build_batch


class TestExpire(CleanupPolicyConformance, plugin=expiring_records): ...


@pytest.mark.parametrize(
    ("value", "stays"),
    [(b"1000", False), (b"1001", True), (b"", True), (b"soon", True), (None, True), (b"9" * 5000, True)],
)
def test_a_record_goes_when_its_time_is_over(value: bytes | None, stays: bool) -> None:
    batch = build_batch([NewRecord(b"v", headers=[("expires", value)]), NewRecord(b"v")], now_ms=0)
    block = RecordBlock(bytes(batch), [PlacedBatch(parse_header(batch), 0)])
    assert expiring_records.NotExpired(1000).keep(block) == [stays, True]
