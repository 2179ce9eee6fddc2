"""Residency of the pages of a mapped file, by which a lookup avoids waiting for a device.

A page fault on a mapping cannot be refused the way `preadv2` with `RWF_NOWAIT` refuses, and blocks the whole
interpreter. `mincore` shows it beforehand; where the system has no such call all pages count as resident.
"""

from __future__ import annotations

import ctypes
import mmap
from weakref import WeakKeyDictionary


class _PyBuffer(ctypes.Structure):
    """`Py_buffer` of CPython's stable ABI: the way to the address of a mapping that may only be read."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_mincore = getattr(ctypes.CDLL(None), "mincore", None)
if _mincore is not None:
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


_addresses: WeakKeyDictionary[mmap.mmap, int] = WeakKeyDictionary()
"""Addresses of mappings; to determine one each time would take longer than all the rest."""


def is_resident(mapped: mmap.mmap, start: int, end: int) -> bool:
    """Return whether the pages of the bytes `[start, end)` of a mapping are in memory; thread-safe."""
    if _mincore is None:
        return True
    address = _addresses.get(mapped) or _address_of(mapped)
    start -= start % mmap.PAGESIZE
    pages = (ctypes.c_char * -((start - end) // mmap.PAGESIZE))()
    return not _mincore(address + start, end - start, pages) and pages.raw.count(b"\0") == 0


def _address_of(mapped: mmap.mmap) -> int:
    buffer = _PyBuffer()
    _get_buffer(mapped, ctypes.byref(buffer), 0)
    address: int = buffer.buf
    # A mapping is never resized or closed while it is referenced, so its address stays.
    _addresses[mapped] = address
    _release_buffer(ctypes.byref(buffer))
    return address
