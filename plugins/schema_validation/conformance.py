"""The suite of interceptors for the validation of values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from tidelog.kernel.testing.interceptors import InterceptorConformance


class SchemaValidationConformance(InterceptorConformance):
    """Accepts objects of JSON."""

    settings: ClassVar[Mapping[str, object]] = {}
    accepted = (b"{}", b'{"a": 1}')

    @pytest.fixture(autouse=True)
    def schema(self, tmp_path: Path) -> None:
        """Write a schema."""
        file = tmp_path / "object.json"
        file.write_text('{"type": "object"}')
        type(self).settings = {"schema_validation.file": str(file)}
