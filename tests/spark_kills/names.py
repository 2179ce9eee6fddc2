"""Topics, and names in the folder that the driver shares with those who kill it."""

from __future__ import annotations

from typing import Final

RECORDS: Final = "records"
TRANSFORMED: Final = "transformed"
TABLE: Final = "table"
RESULT: Final = "result"
FINISH: Final = "finish"
