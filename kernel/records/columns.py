"""Numbers of many records or batches as arrays, with an element for each."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Column: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
