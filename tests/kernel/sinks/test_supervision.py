"""A sink that fails, ends, hangs or is slow hurts nothing but itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel.sinks.plugin import FunctionKind, FunctionSink, plugin_with, running
from tests.tables import for_each
from tidelog.kernel.broker import Broker
from tidelog.kernel.config import ConfigKey, integer, string
from tidelog.kernel.errors import ConfigError, PluginError, StorageError
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.sinks import Committed, SinkFeed
from tidelog.kernel.sinks.sinks import STALLED_S
from tidelog.kernel.sinks.statistics import SinkState
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker, running_broker


def settings(plugin: str, **sinks: dict[str, object]) -> dict[str, object]:
    """A broker with sinks of the kind probe."""
    named = {name: {"topics.regex": ".*", **keys} for name, keys in (sinks or {"test": {}}).items()}
    return {"plugins": plugin, "sinks": {"probe": named}}


def state_of(broker: Broker, name: str = "test") -> SinkState:
    """What the sink does now."""
    return broker.sinks.statistics()[f"probe.{name}"].state


async def appended(broker: Broker, name: str = "t") -> int:
    """Create a topic, append a record to it; its high watermark."""
    topic = await broker.topics.ensure(name)
    topic.partitions[0].log.append_nowait(make_batch([b"x"]))
    return topic.partitions[0].log.high_watermark


async def test_the_sink_gets_its_name_its_configuration_and_its_broker() -> None:
    rows = ConfigKey(name="rows", type=integer(1), default=5, documentation="Rows.")
    listeners: list[str] = []

    async def run(feed: SinkFeed) -> None:
        listeners.extend(kind.contexts[0].broker.listeners)
        async for _ in feed:
            pass

    kind = FunctionKind(lambda _: FunctionSink(run), keys=(rows,))
    with plugin_with(kind) as plugin:
        async with running_broker(settings(plugin, test={"rows": 7})) as broker:
            (context,) = kind.contexts
            assert (str(context.name), context.config[rows]) == ("probe.test", 7)
            assert context.broker is broker
            await trio.testing.wait_all_tasks_blocked()
            assert listeners == ["PLAINTEXT"]


async def test_a_sink_receives_what_other_topics_and_brokers_wrote_before(tmp_path: Any) -> None:
    ranges: list[tuple[str, int, int]] = []

    async def run(feed: SinkFeed) -> None:
        async for changes in feed:
            ranges.extend(
                (str(each.log.topic_partition), each.first_offset, each.next_offset)
                for each in changes
                if isinstance(each, Committed)
            )

    data = {"storage": "file", "log.dirs": str(tmp_path / "data")}
    async with running_broker(data) as broker:
        await appended(broker)
    with plugin_with(running(run)) as plugin:
        async with running_broker({**data, **settings(plugin)}) as broker:
            await appended(broker, "u")
    assert sorted(ranges) == [("t-0", 0, 1), ("u-0", 0, 1)]


@pytest.mark.parametrize(
    ("error", "logged", "with_traceback"),
    [
        (ValueError("what"), "sink probe.test failed, and runs again in 1 s: ValueError: what", True),
        (StorageError("no"), "sink probe.test failed, and runs again in 1 s: StorageError: no", False),
        (SystemExit(3), "sink probe.test failed, and runs again in 1 s: SystemExit: 3", True),
        (ExceptionGroup("two", [OSError(), KeyError()]), "ExceptionGroup: two", True),
    ],
)
async def test_a_sink_that_fails_is_logged_and_runs_again(
    error: BaseException,
    logged: str,
    with_traceback: bool,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del autojump_clock
    taken: list[int] = []

    async def run(feed: SinkFeed) -> None:
        taken.append(0)
        async for changes in feed:
            taken[-1] += len(changes)
            # On a busy machine the topic and its record do not come together.
            if len(taken) == 1 and any(isinstance(each, Committed) for each in changes):
                raise error

    kind = running(run)
    with plugin_with(kind) as plugin:
        async with running_broker(settings(plugin)) as broker:
            assert await appended(broker) == 1
            await trio.sleep(0.5)
            assert (taken, state_of(broker)) == ([2], SinkState.WAITING)
            assert await appended(broker) == 2
            await trio.sleep(1)
            assert (taken, state_of(broker)) == ([2, 2], SinkState.RUNNING)  # with a feed of its own
            found = broker.sinks.statistics()["probe.test"]
            assert (found.failures, found.last_error, len(kind.contexts)) == (1, repr(error), 2)
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert logged in record.getMessage()
    assert bool(record.exc_info) == with_traceback


async def test_a_sink_that_keeps_failing_waits_longer_each_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    times: list[float] = []

    async def run(_: SinkFeed) -> None:
        times.append(trio.current_time())
        if len(times) == 5:
            await trio.sleep(1)  # longer than the longest backoff
        raise ValueError

    keys: dict[str, object] = {"retry.backoff.ms": 100, "retry.backoff.max.ms": 500}
    with plugin_with(running(run)) as plugin:
        async with running_broker(settings(plugin, test=keys)):
            await trio.sleep(3)
    waits = [round(after - before, 2) for before, after in pairwise(times)]
    assert waits[:7] == [0.1, 0.2, 0.4, 0.5, 1.1, 0.2, 0.4]


async def test_a_failing_sink_hurts_no_other_one() -> None:
    taken: list[int] = []

    async def fail(_: SinkFeed) -> None:
        raise ValueError

    async def take(feed: SinkFeed) -> None:
        async for changes in feed:
            taken.append(len(changes))

    runs = {"bad": fail, "good": take}
    kind = FunctionKind(lambda context: FunctionSink(runs[context.name.name]))
    with plugin_with(kind) as plugin:
        async with running_broker(settings(plugin, bad={}, good={})) as broker:
            assert await appended(broker) == 1
            await trio.testing.wait_all_tasks_blocked()
            assert sum(taken) == 2
            assert state_of(broker, "good") is SinkState.RUNNING


async def test_a_sink_that_ends_by_itself_is_logged_and_not_run_again(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock

    async def run(feed: SinkFeed) -> None:
        await feed.__anext__()

    kind = running(run)
    with plugin_with(kind) as plugin:
        async with running_broker(settings(plugin)) as broker:
            (partition,) = (await broker.topics.ensure("t")).partitions
            await trio.sleep(100)
            assert state_of(broker) is SinkState.ENDED
            assert len(kind.contexts) == 1
            # Nothing of its feed is left.
            assert not partition.log.watermarks.committed_waiters
    assert "sink probe.test has ended by itself" in caplog.text


async def test_a_sink_that_does_not_end_in_time_is_cancelled(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock

    async def run(feed: SinkFeed) -> None:
        async for _ in feed:
            pass
        await trio.sleep_forever()

    with plugin_with(running(run)) as plugin:
        async with running_broker({**settings(plugin), "shutdown.timeout.ms": 2_000}):
            stopping = trio.current_time()
    assert trio.current_time() - stopping == pytest.approx(2)
    assert "sink probe.test had not ended when the time to stop was over" in caplog.text


async def test_a_stop_does_not_wait_for_the_next_run(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock

    async def run(_: SinkFeed) -> None:
        raise ValueError

    with plugin_with(running(run)) as plugin:
        async with running_broker(settings(plugin)):
            await trio.sleep(0.5)
            stopping = trio.current_time()
    assert trio.current_time() == stopping


async def test_a_sink_that_takes_nothing_is_logged_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock
    go_on = trio.Event()

    async def run(feed: SinkFeed) -> None:
        await go_on.wait()
        async for _ in feed:
            pass

    with plugin_with(running(run)) as plugin:
        async with running_broker(settings(plugin)) as broker:
            await trio.sleep(5 * STALLED_S)
            assert "taken nothing" not in caplog.text
            await appended(broker)
            await trio.sleep(5 * STALLED_S)
            assert caplog.text.count("sink probe.test has taken nothing from its feed for 60 s, ") == 1
            found = broker.sinks.statistics()["probe.test"]
            assert (found.untaken, found.partitions, found.lag, found.takes) == (1, 0, 1, 0)
            go_on.set()
            await trio.sleep(1)
            found = broker.sinks.statistics()["probe.test"]
            assert (found.untaken, found.partitions, found.lag, found.takes) == (0, 1, 1, 1)


async def test_the_lag_is_what_is_not_delivered() -> None:
    async def run(feed: SinkFeed) -> None:
        async for changes in feed:
            for change in changes:
                if isinstance(change, Committed):
                    change.log.delivered(change.next_offset - 1)

    with plugin_with(running(run)) as plugin:
        async with running_broker(settings(plugin)) as broker:
            (partition,) = (await broker.topics.ensure("t")).partitions
            partition.log.append_nowait(make_batch([b"x"] * 5))
            await trio.testing.wait_all_tasks_blocked()
            assert broker.sinks.statistics()["probe.test"].lag == 1


async def test_a_configuration_that_a_sink_refuses_stops_the_start() -> None:
    def refuse(_: object) -> object:
        raise ConfigError("path names a file, not a directory")

    with plugin_with(FunctionKind(refuse)) as plugin:
        broker = new_broker(settings(plugin))
        with pytest.raises(ConfigError, match=r"problem: \[sinks.probe.test\]: path names a file"):
            async with broker.running():
                pass
        two = new_broker(settings(plugin, one={}, other={}))
        with pytest.raises(ConfigError) as caught:
            async with two.running():
                pass
    reasons = ["  [sinks.probe.one]: path names a file", "  [sinks.probe.other]: path names a file"]
    assert [line.partition(",")[0] for line in str(caught.value).splitlines()[1:]] == reasons


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: 1 // 0, "The sink probe.test cannot be created: ZeroDivisionError"),
        (lambda _: None, "The kind of sink probe creates None, which has no method run"),
    ],
)
async def test_a_kind_that_creates_no_sink_stops_the_start(make: Any, reason: str) -> None:
    with plugin_with(FunctionKind(make)) as plugin, pytest.raises(PluginError, match=reason):
        async with new_broker(settings(plugin)).running():
            pass


async def test_a_run_that_is_no_async_function_fails_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    kind = FunctionKind(lambda _: FunctionSink(lambda _: None))  # type: ignore[arg-type, return-value]  # pyright: ignore
    with plugin_with(kind) as plugin:
        async with running_broker(settings(plugin)) as broker:
            await trio.testing.wait_all_tasks_blocked()
            assert state_of(broker) is SinkState.WAITING
    assert "sink probe.test failed" in caplog.text


def key(name: str, **more: Any) -> ConfigKey[str]:
    """A key of a sink."""
    return ConfigKey(name=name, type=string(), default="", documentation="A key.", **more)


@for_each(
    ("kind", "reason"),
    [
        (
            FunctionKind(print, name="a.b"),
            "The kind of sink 'a.b' has a name with other than a-z",
        ),
        (FunctionKind(print, keys=[key("topics")]), "probe declares the key topics, which it has already"),
        (FunctionKind(print, keys=[key("a"), key("a")]), "probe declares the key a, which it has already"),
        (FunctionKind(print, keys=[key("a", scope="topic")]), "probe has the key a, which is one of topics"),
        (FunctionKind(print, keys=[key("a", dynamic=True)]), "or can be changed while the broker runs"),
        (FunctionKind(print, keys=["a"]), "The plugin .* hands over 'a', which is no configuration key"),  # type: ignore[list-item]
        (object(), "hands over <object .*> as a kind of sink, but it has no name"),
    ],
)
def test_a_broken_kind_is_refused(kind: object, reason: str) -> None:
    with plugin_with(kind) as plugin, pytest.raises(PluginError, match=reason):
        configure({"plugins": plugin})


def test_two_kinds_of_one_name_are_refused() -> None:
    kinds: Sequence[object] = [FunctionKind(print), FunctionKind(print)]
    with (
        plugin_with(*kinds) as plugin,
        pytest.raises(PluginError, match="both offer a kind of sink"),
    ):
        configure({"plugins": plugin})


async def test_a_broker_without_sinks_loads_nothing_of_them() -> None:
    async with running_broker() as broker:
        topic = await broker.topics.create(TopicSpec("t", 1))
        assert not topic.partitions[0].log.watermarks.committed_waiters
        assert broker.sinks.statistics() == {}
