"""What a query fails with, beside the client's own errors."""

from __future__ import annotations

import logging

from tidelog.kernel.errors import TidelogError

log = logging.getLogger(__name__)


class DataLost(TidelogError):
    """Records between the query's position and the log's are gone."""


def report_data_loss(message: str, *, fail: bool) -> None:
    """Raise `DataLost` if a query is to fail in such a case, else log a warning.

    Raises:
        DataLost: `fail` is true.
    """
    if fail:
        raise DataLost(
            f"{message}. Some records may be lost: they were deleted by retention or with their topic before "
            "the query read them. To continue without them, set the option failOnDataLoss to false"
        )
    log.warning("%s. Some records may be lost; the query continues, as failOnDataLoss is false", message)
