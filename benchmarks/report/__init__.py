"""What a run found, as a table for people and as JSON for programs."""

from .document import document
from .table import print_report

__all__ = ["document", "print_report"]
