"""Hooks of the export to OpenTelemetry; without `opentelemetry.endpoint` nothing but the keys is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.opentelemetry import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.broker import BrokerContext
    from tidelog.kernel.seams.tasks import BackgroundTask


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys `opentelemetry.*`."""
    return declared_keys(keys)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Return the task that sends the meters, where there is an endpoint."""
    if not broker.config[keys.OPENTELEMETRY_ENDPOINT]:
        return ()
    try:
        from tidelog.plugins.opentelemetry.export import export_task
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"opentelemetry.endpoint needs {error.name}: pip install 'tidelog[opentelemetry]', or unset it"
        ) from error
    return (export_task(broker),)
