"""Finding fields in JSON by paths, and masking them."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeGuard

ANY: Final = "*"
REMOVED: Final = object()
"""What a mask returns to remove the field."""

Mask = Callable[[object], object]


class Unreadable(Exception):
    """The value is not JSON, or nested too deeply to read."""


def replacing(text: str) -> Mask:
    """Return a mask that puts a text in place of anything."""
    return lambda value: text


def removing(value: object) -> object:
    """Remove a field."""
    return REMOVED


def hashing(secret: bytes) -> Mask:
    """Return a mask that puts 128 bits of an HMAC-SHA256 in place of a value, the same for equal values."""

    def digest(value: object) -> str:
        content = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
        return hmac.new(secret, content, hashlib.sha256).hexdigest()[:32]

    return digest


class FieldMask:
    """Masks the fields at some paths of JSON values."""

    def __init__(self, paths: Sequence[str], mask: Mask) -> None:
        self._paths = [path.split(".") for path in paths]
        self._mask = mask

    def apply(self, value: bytes) -> bytes:
        """Return a value with its fields masked; the same object if it has none of them.

        Raises:
            Unreadable: it is no JSON that can be read.
        """
        try:
            # UTF-8 only: `loads` of bytes would also take UTF-16 and UTF-32.
            document = json.loads(value.decode())
            masked = [path for path in self._paths if _mask_at(document, path, self._mask)]
            if not masked:
                return value
            return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        # `RecursionError`: brackets in brackets, deeper than the interpreter's stack.
        except (ValueError, RecursionError) as error:
            raise Unreadable from error


def _mask_at(document: Any, path: Sequence[str], mask: Mask) -> bool:
    """Mask what is at a path; return whether there is something."""
    found = False
    *parents, last = path
    for place in _objects_at(document, parents):
        for name in [*place] if last == ANY else [last] * (last in place):
            masked = mask(place[name])
            if masked is REMOVED:
                del place[name]
            else:
                place[name] = masked
            found = True
    return found


def _objects_at(document: Any, path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Iterate over the objects at a path, in arrays too."""
    # A stack of its own: the depth is that of the peer's document.
    left: list[tuple[Any, int]] = [(document, 0)]
    while left:
        node, depth = left.pop()
        if _is_array(node):
            left += [(each, depth) for each in node]
        elif _is_object(node):
            if depth == len(path):
                yield node
            elif path[depth] == ANY:
                left += [(each, depth + 1) for each in node.values()]
            elif path[depth] in node:
                left.append((node[path[depth]], depth + 1))


def _is_array(node: Any) -> TypeGuard[list[Any]]:
    return isinstance(node, list)


def _is_object(node: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(node, dict)
