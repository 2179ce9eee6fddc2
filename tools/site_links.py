"""The site has only pages of docs/: links to files beside that folder become their text there."""

from __future__ import annotations

import re
from typing import Any, Final

_OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\(\.\./[^)\s]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page, as the site shows it."""
    return _OUTSIDE.sub(r"\1", markdown)
