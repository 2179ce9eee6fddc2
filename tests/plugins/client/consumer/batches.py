"""Batches for tests of what a consumer makes of them."""

from __future__ import annotations

from hypothesis import strategies as st

from tidelog.kernel.records.batch import stamp_offset
from tidelog.plugins.client.batches import NewRecord, build_batch

parts = st.none() | st.binary(max_size=300)
new_records = st.builds(
    NewRecord,
    parts,
    parts,
    st.lists(st.tuples(st.text(max_size=5), parts), max_size=3),
    st.integers(0, 2**63 - 1),
)


def batch_of(records: list[NewRecord], base_offset: int = 0, compression: str = "none") -> bytearray:
    batch = build_batch(records, now_ms=0, compression=compression)
    stamp_offset(batch, base_offset, 5)
    return batch
