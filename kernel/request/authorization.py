"""Authorization of requests: an authorizer, and the audit log of what it decided.

The log is that of Apache Kafka, `kafka.authorizer.logger`: denials at level info, grants at debug, and
what is only asked to leave something out of an answer not at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.seams.authorizer import Authorizer, Subject, Undecided

if TYPE_CHECKING:
    from tidelog.kernel.seams.requests import AclOperation, ResourceType

AUDIT_LOG: Final = "kafka.authorizer.logger"
AUDIT_INTERVAL_S: Final = 10.0
"""How often the same decision of the same principal is logged."""

_log = logging.getLogger(__name__)
_audit = logging.getLogger(AUDIT_LOG)


class Authorization:
    """Asks an authorizer, and logs what it decided; an authorizer that fails has denied."""

    def __init__(self, authorizer: Authorizer, name: str = "", limit: RateLimit | None = None) -> None:
        """`name` is that in the configuration, by default of the class; `limit` bounds the audit log.

        It bounds what is logged of failures, too.
        """
        self.authorizer = authorizer
        self._name = name or type(authorizer).__name__
        self._limit = limit or RateLimit(AUDIT_INTERVAL_S)

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
        key = f"{word} {subject.principal} {operation} {resource_type} {name}"
        if not _audit.isEnabledFor(level) or (suppressed := self._limit.admit(key)) is None:
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
            f" ({suppressed} more in between)" if suppressed else "",
        )


def _resource(resource_type: ResourceType) -> str:
    """Return the name in the form of Apache Kafka: TransactionalId."""
    return resource_type.name.title().replace("_", "")


def _one_line(text: str) -> str:
    return text if text.isprintable() else ascii(text)
