"""Admin client for async code, on trio and on asyncio, whichever runs."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from tidelog.plugins.client.admin import admin_operations as operations
from tidelog.plugins.client.admin.admin_operations import settled
from tidelog.plugins.client.admin.settings import AdminSettings
from tidelog.plugins.client.drivers.running import new_driver
from tidelog.plugins.client.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Any, Self, Unpack

    from tidelog.plugins.client.admin.settings import AdminOptions
    from tidelog.plugins.client.operations.sending import Outcomes
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers

P = ParamSpec("P")
K = TypeVar("K")
T = TypeVar("T")


def _method(
    operation: Callable[Concatenate[Session, P], Steps[T]],
) -> Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def method(self: AsyncAdmin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation, *args, **kwargs)

    return method


def _method_for_each(
    operation: Callable[Concatenate[Session, P], Steps[Outcomes[K, T]]],
) -> Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, dict[K, T]]]:
    @wraps(operation)
    async def method(self: AsyncAdmin, /, *args: P.args, **kwargs: P.kwargs) -> dict[K, T]:
        return settled(await self.run(operation, *args, **kwargs))

    return method


class AsyncAdmin:
    """Administers a cluster of Kafka or tidelog.

        async with AsyncAdmin("127.0.0.1:9092") as admin:
            await admin.create_topics([NewTopic("orders", partitions=3)])

    The methods are those of `Admin`. It is created inside of the trio run or asyncio loop whose tasks use it.
    """

    def __init__(self, bootstrap_servers: BootstrapServers, **options: Unpack[AdminOptions]) -> None:
        """Set the brokers (`BootstrapServers`), and `AdminSettings`.

        Nothing is connected before a method is called.

        Raises:
            InvalidAddress: an address has another form.
            ValueError: a setting has a value that it cannot have.
            TypeError: there is no such setting.
            RuntimeError: neither trio nor asyncio runs here.
        """
        settings = AdminSettings(**options).client()
        self._timeout_s = settings.operation_timeout_s
        self._driver = new_driver()
        self._engine = Engine(bootstrap_servers, settings, self._driver)
        self._is_started = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; methods that are called now raise `ClientClosed`."""
        self._driver.stop()

    async def run(
        self,
        operation: Callable[Concatenate[Session, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an operation to its end, the caller's own or one of `tidelog.plugins.client.operations`.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `default_api_timeout_ms`.
            ClientClosed: the client was closed.
        """
        if not self._is_started and not self._engine.is_closed:
            self._is_started = True
            self._driver.start(self._engine)
        return await self._driver.run(operation(self._engine.session, *args, **kwargs), self._timeout_s)

    describe_cluster = _method(operations.describe_cluster)
    list_topics = _method(operations.list_topics)
    describe_topics = _method_for_each(operations.describe_topics)
    create_topics = _method_for_each(operations.create_topics)
    create_partitions = _method_for_each(operations.create_partitions)
    delete_topics = _method_for_each(operations.delete_topics)
    describe_configs = _method_for_each(operations.describe_configs)
    alter_configs = _method_for_each(operations.alter_configs)
    list_offsets = _method_for_each(operations.list_offsets)
    delete_records = _method_for_each(operations.delete_records)
    list_groups = _method(operations.list_groups)
    describe_groups = _method_for_each(operations.describe_groups)
    delete_groups = _method_for_each(operations.delete_groups)
    committed_offsets = _method(operations.committed_offsets)
    commit_offsets = _method_for_each(operations.commit_offsets)
    delete_offsets = _method_for_each(operations.delete_offsets)
    describe_quotas = _method(operations.describe_quotas)
    alter_quotas = _method_for_each(operations.alter_quotas)
    describe_user_scram_credentials = _method_for_each(operations.describe_user_scram_credentials)
    alter_user_scram_credentials = _method_for_each(operations.alter_user_scram_credentials)
    describe_acls = _method(operations.describe_acls)
    create_acls = _method_for_each(operations.create_acls)
    delete_acls = _method_for_each(operations.delete_acls)
    create_delegation_token = _method(operations.create_delegation_token)
    renew_delegation_token = _method(operations.renew_delegation_token)
    expire_delegation_token = _method(operations.expire_delegation_token)
    describe_delegation_tokens = _method(operations.describe_delegation_tokens)
    describe_features = _method(operations.describe_features)
    update_features = _method(operations.update_features)
