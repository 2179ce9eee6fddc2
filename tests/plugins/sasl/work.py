"""The work that a login makes a broker do, so that two logins are compared without a clock."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

Work = tuple[str, *tuple[int, ...]]
"""A function, and how many bytes each of its arguments has."""


def work_of(monkeypatch: pytest.MonkeyPatch, log_in: Callable[[], object]) -> list[Work]:
    """The hashes and comparisons of a login, in their order."""
    done: list[Work] = []

    def count(patched: pytest.MonkeyPatch, module: Any, name: str) -> None:
        function = getattr(module, name)

        def counted(*args: Any) -> Any:
            done.append((name, *(len(each) for each in args if isinstance(each, bytes))))
            return function(*args)

        patched.setattr(module, name, counted)

    with monkeypatch.context() as patched:
        for module, name in (
            (hmac, "digest"),
            (hmac, "compare_digest"),
            (hashlib, "new"),
            (hashlib, "pbkdf2_hmac"),
        ):
            count(patched, module, name)
        log_in()
    return done
