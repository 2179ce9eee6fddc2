"""The suite of interceptors for masking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tidelog.kernel.testing.interceptors import InterceptorConformance


class MaskingConformance(InterceptorConformance):
    """Masks a field and a header."""

    settings: ClassVar[Mapping[str, object]] = {"masking.fields": "email", "masking.headers": "secret"}
