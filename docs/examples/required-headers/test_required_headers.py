"""The interceptor keeps the contract of its seam, and names the record and the header."""

import pytest
import required_headers
from required_headers_conformance import RequiredHeadersConformance

from tidelog.kernel.errors import InvalidRecord


class TestRequiredHeaders(RequiredHeadersConformance, plugin=required_headers):
    def test_the_record_without_the_header_is_named(self) -> None:
        outcome = self._changed(self.created().rewrite, self.batches()[-1], may_hide=False)
        assert isinstance(outcome, InvalidRecord)
        assert outcome.record_errors == [(1, "the header trace-id is missing")]
        with pytest.raises(StopIteration):
            next(self.created().rewrite(None, iter(())))
