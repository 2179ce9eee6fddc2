"""Conformance of interceptors: a suite for each kind that `interceptors.NAME.type` can name.

    class TestMyInterceptor(InterceptorConformance, plugin=my_plugin):
        settings = {"arrival.header": "at"}

It calls what the kind overrides, as a broker does, with records of all kinds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, ClassVar, Final

import pytest

from tidelog.kernel.config import Config, interceptor_keys
from tidelog.kernel.errors import BrokerError, InvalidRecord
from tidelog.kernel.records.batch import parse_header, verify_crc
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.request.active_interceptor import ActiveInterceptor
from tidelog.kernel.request.rewriting import Answers, rewritten
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Change,
    FetchInfo,
    Interceptor,
    InterceptorContext,
    PartitionsCreation,
    TopicConfigChange,
    TopicCreation,
    TopicDeletion,
)
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS, FakeClock
from tidelog.kernel.testing.installed import with_installed_keys

TABLE: Final = "proven"
MOST_SECONDS: Final = 0.1
"""A call on the event loop takes at most as long, at best of three times."""
THREADS: Final = 4
TURNS: Final = 20
METHODS: Final = ("before_append", "rewrite", "after_append", "before_fetch", "show", "before_change")
CHANGES: Final[Sequence[Change]] = (
    TopicCreation("orders", 3, 1, {}),
    TopicCreation("orders", -1, -1, {"retention.ms": "1"}),
    PartitionsCreation("orders", 100),
    TopicConfigChange("orders", {}, {"retention.ms": "1"}),
    TopicConfigChange("orders", {"retention.ms": "1"}, {}),
    TopicDeletion("orders"),
)
ODD: Final[Sequence[bytes | None]] = (None, b"", b"{}", b"[1]", b"\xff\x00", "é\u202e".encode(), b"x" * 5000)


class InterceptorConformance:
    """Everything that the kernel relies on; `plugin` is the module with the hook of the kind to prove.

    `kind_name` chooses one where the plugin offers several; `settings` are keys of its table, without
    `interceptors.NAME.`. `accepted` are values that it accepts, if it accepts some alone. One that answers by
    what it saw before, as a limit does, says so by `has_memory`.
    """

    plugin: ClassVar[ModuleType]
    kind_name: ClassVar[str | None] = None
    settings: ClassVar[Mapping[str, object]] = {}
    accepted: ClassVar[Sequence[bytes | None]] = ODD
    has_memory: ClassVar[bool] = False

    def __init_subclass__(cls, plugin: ModuleType | None = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if plugin is not None:
            cls.plugin = plugin

    def created(self) -> Interceptor:
        """Return an interceptor of the kind, at a time that stands still."""
        (kind,) = [each for each in self.plugin.tidelog_interceptors() if self.kind_name in (None, each.name)]
        own = list(self.plugin.tidelog_config_keys()) if hasattr(self.plugin, "tidelog_config_keys") else []
        section = f"{interceptor_keys.SECTION}.{TABLE}"
        values = {f"{section}.{key}": value for key, value in {"type": kind.name, **self.settings}.items()}
        config = Config.from_mapping({"storage": "memory", **values}, with_installed_keys(own))
        (table,) = config.tables(interceptor_keys.SECTION)
        created: Interceptor = kind.create(InterceptorContext(TABLE, config, table, FakeClock()))
        return created

    def batches(self) -> Sequence[bytes]:
        """Return batches of clients, of one record and of many, with keys, headers and without."""
        values = list(self.accepted)
        return [
            *(bytes(make_batch([value])) for value in values),
            bytes(make_batch(values, 40, keys=values[::-1])),
            bytes(make_batch(values * 10, producer_id=7, producer_epoch=0, base_sequence=0)),
            bytes(make_batch(ODD, keys=ODD[::-1])),
        ]

    def test_it_is_an_interceptor_that_does_something(self) -> None:
        created = self.created()
        assert isinstance(created, Interceptor)
        active = ActiveInterceptor(TABLE, created)
        assert any(active.overrides(method) for method in METHODS), "it overrides no method"

    def test_before_append_returns_a_topic_or_nothing_or_refuses(self) -> None:
        created = self.created()
        for batch in self.batches():
            route = _outcome(lambda batch=batch: created.before_append(_info(batch)))
            assert route is None or isinstance(route, str | BrokerError), f"{route!r} is no topic"
            again = _outcome(lambda batch=batch: created.before_append(_info(batch)))
            assert self.has_memory or _words(again) == _words(route), "the same batch takes another way"

    def test_rewrite_answers_for_each_record_in_order(self) -> None:
        created = self.created()
        for batch in self.batches():
            self._changed(created.rewrite, batch, may_hide=False)

    def test_rewrite_accepts_what_the_suite_was_given(self) -> None:
        created = self.created()
        for batch in self.batches()[:-1]:
            outcome = self._changed(created.rewrite, batch, may_hide=False)
            assert not isinstance(outcome, BrokerError), f"it refuses {self.accepted!r}: {outcome}"

    def test_show_answers_for_each_record_in_order(self) -> None:
        created = self.created()
        for batch in self.batches():
            self._changed(created.show, batch, may_hide=True)

    @pytest.mark.parametrize("method", ["rewrite", "show"])
    def test_an_answer_depends_on_no_batch_before_it(self, method: str) -> None:
        created, hides = self.created(), method == "show"
        if self.has_memory:
            pytest.skip("it answers by what it saw before")
        first, again = (
            [_words(self._changed(getattr(created, method), each, may_hide=hides)) for each in self.batches()]
            for _ in range(2)
        )
        assert again == first, f"{method} answers in another way the second time"
        for batch, answer in zip(self.batches(), first, strict=True):
            alone = self._changed(getattr(self.created(), method), batch, may_hide=hides)
            assert _words(alone) == answer, f"{method} answers by what came before"

    @pytest.mark.parametrize("method", ["rewrite", "show"])
    def test_several_threads_may_call_it_at_once(self, method: str) -> None:
        created, hides, batches = self.created(), method == "show", self.batches()
        answers: Answers = getattr(created, method)
        alone = [_words(self._changed(answers, each, may_hide=hides)) for each in batches]
        wrong: list[object] = []
        together = threading.Barrier(THREADS)

        def work(first: int) -> None:
            try:
                together.wait()
                for turn in range(first, first + TURNS):
                    number = turn % len(batches)
                    outcome = self._changed(answers, batches[number], may_hide=hides)
                    if _words(outcome) != alone[number] and not self.has_memory:
                        wrong.append(number)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == [], f"{method} answers in another way where several threads call it"

    def test_after_append_takes_note_and_returns_nothing(self) -> None:
        created = self.created()
        for batch in self.batches():
            info = _info(batch)
            for result in (
                AppendResult(0, info.header.last_offset_delta, -1),
                AppendResult(7, 7 + info.header.last_offset_delta, START_MS, True),
            ):
                returned: object = created.after_append(info, result)  # type: ignore[func-returns-value]
                assert returned is None

    def test_before_fetch_returns_whether_records_are_shown_or_refuses(self) -> None:
        created = self.created()
        for principal in (Principal("User", "alice"), Principal("User", "ordérs")):
            for client_id in (None, "", "shop"):
                fetch = FetchInfo("orders", 0, "PLAINTEXT", "192.0.2.1", principal, client_id)
                shown = _outcome(lambda fetch=fetch: created.before_fetch(fetch))
                assert isinstance(shown, bool | BrokerError), f"{shown!r} is neither True nor False"

    def test_before_change_returns_nothing_or_refuses(self) -> None:
        created = self.created()
        for change in CHANGES:
            first = _outcome(lambda change=change: created.before_change(change))
            assert first is None or isinstance(first, BrokerError)
            # It is asked again, where a change is validated before it is made.
            assert _words(_outcome(lambda change=change: created.before_change(change))) == _words(first)

    def test_no_call_blocks_the_event_loop(self) -> None:
        created, batch = self.created(), self.batches()[0]
        fetch = FetchInfo("orders", 0, "PLAINTEXT", "192.0.2.1", Principal("User", "alice"), None)
        info, result = _info(batch), AppendResult(0, 0, -1)
        for call in (
            lambda: created.before_append(info),
            lambda: created.after_append(info, result),
            lambda: created.before_fetch(fetch),
            *(lambda change=change: created.before_change(change) for change in CHANGES),
        ):
            assert min(_seconds(call) for _ in range(3)) <= MOST_SECONDS

    def _changed(self, answers: Answers, batch: bytes, *, may_hide: bool) -> object:
        """Return what comes out of a batch, or the error that refuses it; any other error fails the test."""
        info = _info(batch)
        outcome = _outcome(lambda: rewritten(answers, info, batch, _turn, may_hide=may_hide))
        if isinstance(outcome, bytearray):
            header = parse_header(outcome)
            assert verify_crc(outcome, header)
            assert (header.base_offset, header.last_offset) == (
                info.header.base_offset,
                info.header.last_offset,
            )
            before = {record.offset: record for record in iter_records(batch, info.header)}
            assert all(record.offset in before for record in iter_records(outcome, header))
            return [_content(record) for record in iter_records(outcome, header)]
        if outcome is None:
            return [_content(record) for record in iter_records(batch, info.header)]
        return outcome


def _info(batch: bytes) -> BatchInfo:
    alice = Principal("User", "alice")
    return BatchInfo("orders", 0, parse_header(batch), len(batch), "PLAINTEXT", "192.0.2.1", alice, "shop")


def _turn() -> None:
    """Do nothing: no time is over here."""


def _content(record: Record) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def _outcome(call: Any) -> object:
    """Return what a call returns, or with what it refuses."""
    try:
        return call()
    except BrokerError as error:
        return error


def _words(outcome: object) -> object:
    """Return what can be compared of an outcome."""
    if isinstance(outcome, InvalidRecord):
        return type(outcome), str(outcome), tuple(outcome.record_errors)
    return (type(outcome), str(outcome)) if isinstance(outcome, BrokerError) else outcome


def _seconds(call: Any) -> float:
    started = perf_counter()
    _outcome(call)
    return perf_counter() - started
