"""What is known of Spark's formats: which of them write files, and the options of those."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config.types import nearest_name

_TEXT: Final = ("lineSep",)
_DATES: Final = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone", "locale", "encoding")
_CSV: Final = (
    *(
        "sep",
        "delimiter",
        "quote",
        "escape",
        "charToEscapeQuoteEscaping",
        "escapeQuotes",
        "quoteAll",
        "header",
    ),
    *("nullValue", "emptyValue", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
)
FILE_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": (),
    "orc": (),
    "json": (*_TEXT, *_DATES, "ignoreNullFields"),
    "csv": (*_TEXT, *_DATES, *_CSV),
    "text": _TEXT,
}
"""Formats of files that are part of Spark, and the options of each beside `FILE_OPTIONS`."""
FILE_OPTIONS: Final = ("compression", "maxRecordsPerFile", "retention")
OTHER_FORMATS: Final = ("avro", "console", "delta", "iceberg", "kafka", "memory", "noop", "tidelog", "xml")
"""Further names, which a misspelled one may mean."""
WITHOUT_PATH: Final = ("console", "kafka", "memory", "noop", "tidelog")


def unknown_format(name: str) -> str | None:
    """Return what a name that looks misspelled may mean; any other one may be that of a package."""
    known = (*FILE_FORMATS, *OTHER_FORMATS)
    return None if name.lower() in known else nearest_name(name.lower(), known)


def unknown_option(file_format: str, name: str) -> str | None:
    """Return the advice for an option that a format of files does not have, None if it may have it.

    Names with dots belong to the libraries that write the files: `parquet.block.size`.
    """
    known = (*FILE_OPTIONS, *FILE_FORMATS[file_format])
    if "." in name or name.lower() in {each.lower() for each in known}:
        return None
    near = nearest_name(name, known)
    return f"did you mean {near}?" if near else f"there are: {', '.join(known)}"
