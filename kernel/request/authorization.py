"""Authorization of requests: an authorizer, and the audit log of what it decided.

The log is that of Apache Kafka, `kafka.authorizer.logger`: denials at level info, grants at debug, and
what is only asked to leave something out of an answer not at all.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.authorizer import Authorizer, Subject, Undecided

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.kernel.seams.requests import AclOperation, ResourceType

AUDIT_LOG: Final = "kafka.authorizer.logger"
AUDIT_INTERVAL_S: Final = 10.0
"""How often the same decision of the same principal is logged."""
MOST_DECISIONS: Final = 100
MOST_DECISIONS_OF_A_PRINCIPAL: Final = 50
"""So many decisions that differ are logged in that time, as a client chooses the names that it asks for."""

_log = logging.getLogger(__name__)
_audit = logging.getLogger(AUDIT_LOG)


class Authorization:
    """Asks an authorizer, and logs what it decided; an authorizer that fails has denied."""

    def __init__(
        self, authorizer: Authorizer, name: str = "", now: Callable[[], float] = time.monotonic
    ) -> None:
        """`name` is that in the configuration, by default of the class.

        `now`, in seconds, is the time by which the audit log and what is logged of failures are bounded.
        """
        self.authorizer = authorizer
        self._name = name or type(authorizer).__name__
        self._limit = RateLimit(AUDIT_INTERVAL_S, now=now)
        self._of_principal = RateLimit(AUDIT_INTERVAL_S, most=MOST_DECISIONS_OF_A_PRINCIPAL, now=now)
        self._of_all = RateLimit(AUDIT_INTERVAL_S, most=MOST_DECISIONS, now=now)

    @property
    def logs_grants(self) -> bool:
        """Whether what is allowed is logged, too."""
        return _audit.isEnabledFor(logging.DEBUG)

    def allows(
        self,
        subject: Subject,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        api: str,
        *,
        audited: bool = True,
    ) -> bool:
        """Return whether a subject may do this; `api` is the name of its request, for the log.

        Raises:
            Undecided: it is not known yet.
        """
        try:
            allowed = self.authorizer.allows(subject, operation, resource_type, name)
        except Undecided:
            raise
        except Exception as error:
            self._failed(error)
            allowed = False
        if audited and (not allowed or self.logs_grants):
            self._record(subject, operation, resource_type, name, api, allowed=allowed)
        return allowed

    def allows_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether a subject may do this with at least one resource of the type.

        Raises:
            Undecided: it is not known yet.
        """
        try:
            return self.authorizer.allows_any(subject, operation, resource_type)
        except Undecided:
            raise
        except Exception as error:
            self._failed(error)
            return False

    def _failed(self, error: Exception) -> None:
        kind = type(error).__name__
        if self._limit.admit(f"{kind} of the authorizer") is not None:
            text = "the authorizer %s failed, which denies: %s: %s"
            _log.error(text, self._name, kind, error, exc_info=error)

    def _record(
        self,
        subject: Subject,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        api: str,
        *,
        allowed: bool,
    ) -> None:
        level, word = (logging.DEBUG, "Allowed") if allowed else (logging.INFO, "Denied")
        decided = f"{word} {subject.principal} {operation} {resource_type} {name}"
        if not _audit.isEnabledFor(level) or (left_out := self._admit(decided, subject, word)) is None:
            return
        try:
            rule = self.authorizer.explain(subject, operation, resource_type, name)
        except Exception as error:
            self._failed(error)
            rule = ""
        _audit.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s "
            "for request = %s%s%s",
            # A peer chooses these: what ends a line would forge another one.
            _one_line(str(subject.principal)),
            word,
            operation.name,
            subject.host,
            _resource(resource_type),
            _one_line(name),
            api,
            f" based on rule {_one_line(rule)}" if rule else "",
            left_out,
        )

    def _admit(self, decided: str, subject: Subject, word: str) -> str | None:
        """Return None if a decision is not logged now, else in words how many were not before it."""
        principal = f"{word} {subject.principal}"
        # First, so that one who asks for many names does not use up what `_limit` can distinguish.
        if self._of_principal.spent(principal) or self._of_all.spent(word):
            return None
        alike = self._limit.admit(decided)
        if alike is None:
            return None
        others = (self._of_principal.admit(principal) or 0) + (self._of_all.admit(word) or 0)
        words = f" ({alike} more in between)" if alike else ""
        return f"{words} ({others} others were left out before)" if others else words


def _resource(resource_type: ResourceType) -> str:
    """Return the name in the form of Apache Kafka: TransactionalId."""
    return resource_type.name.title().replace("_", "")


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)
