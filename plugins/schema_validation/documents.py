"""The types of parts of JSON documents, for type checkers."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_array(node: Any) -> TypeGuard[list[Any]]:
    """Return whether a part of a document is an array."""
    return isinstance(node, list)


def is_object(node: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a part of a document is an object."""
    return isinstance(node, dict)
