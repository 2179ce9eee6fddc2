"""MD5 of keys: as long as two keys do not have the same one, none is taken for the other.

Source: seed 001, "The dedupe hash table, SkimpyOffsetMap".
"""

from __future__ import annotations

from hashlib import md5

import numpy as np
import numpy.typing as npt

from tidelog.kernel.records.block import Mask, RecordBlock

HASH_BYTES = 16


def hash_keys(block: RecordBlock, keyed: Mask) -> npt.NDArray[np.uint8]:
    """Return the hashes of the keys of the records in `keyed`, a row of 16 bytes for each."""
    hashes = b"".join([md5(key, usedforsecurity=False).digest() for key in block.keys(keyed)])
    return np.frombuffer(hashes, np.uint8).reshape(-1, HASH_BYTES)
