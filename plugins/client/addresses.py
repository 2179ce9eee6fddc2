"""The address of a broker."""

from __future__ import annotations

import attrs


@attrs.frozen
class Address:
    """Host name or IP address, and TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
