"""Moves, drafts, replacements, deletions, truncations, stops and crashes in any order, beside a simple model.

No acknowledged batch above the log start is lost; what was replaced, deleted or truncated stays so.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.crash.interposers import Unsynced
from tests.deadlines import DEADLINE_S
from tests.plugins.storage_file.moving.two_directories import TwoDirectories
from tidelog.kernel.errors import LogBusy
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.storage import SegmentDraft, StaleDraft, TopicPartition
from tidelog.kernel.testing.storage.harness import append, headers_of, read_all
from tidelog.kernel.testing.storage.rewriting import written_elsewhere
from tidelog.plugins.storage_file.moving.catch_up import StartOver
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.testing import DataFate, NameFate, PowerCut, Recorder

POLICY = "compact"
MEMORY = Path("/dev/shm")


@attrs.define
class ModelOfLog:
    """Batches by base offset. What is below `durable` is on the device; `deleted` is the least log start.

    A policy has rewritten what is below `rewritten`.
    """

    batches: dict[int, bytes] = attrs.field(factory=dict[int, bytes])
    end: int = 0
    durable: int = 0
    start: int = 0
    deleted: int = 0
    rewritten: int | None = None

    def left(self) -> bytes:
        """All batches from the one that holds the log start on."""
        whole = [batch for batch in self.batches.values() if parse_header(batch).last_offset >= self.start]
        return b"".join(whole)


class Possible:
    """What a crash may leave: one model, or anything between two."""

    def __init__(self, model: ModelOfLog, other: ModelOfLog | None = None) -> None:
        models = (model, other or model)
        self.durable = min(each.durable for each in models)
        self.deleted = min(each.deleted for each in models)
        self._end = min(each.end for each in models)
        self._start = max(each.start for each in models)
        self._batches = {base: batch for each in models for base, batch in each.batches.items()}
        self._certain = [base for base in models[0].batches if base in models[1].batches]
        self._rewritten = sorted(-1 if each.rewritten is None else each.rewritten for each in models)

    def why_not(self, found: dict[int, bytes], store: FilePartitionStore, *, killed: bool) -> str:
        """Why it cannot have left what was found; "" if it can."""
        start = store.log_start_offset
        if not self.deleted <= start <= self._start:
            return f"it begins at {start}, not between {self.deleted} and {self._start}"
        promised = self._end if killed else self.durable
        if store.log_end_offset < promised:
            return f"it ends at {store.log_end_offset}, before {promised}"
        for base in self._certain:
            header = parse_header(self._batches[base])
            kept = header.last_offset >= self._start and header.next_offset <= promised
            if kept and base not in found:
                return f"the batch at {base} is lost"
        for base, batch in found.items():
            if parse_header(batch).last_offset >= start and self._batches.get(base) != batch:
                return f"the batch at {base} is back, or never was"
        return self._why_not_rewritten(store.rewritten_until(POLICY), store.log_end_offset)

    def _why_not_rewritten(self, found: int | None, end: int) -> str:
        """A log whose end was lost is to be rewritten from its start on."""
        least, most = self._rewritten
        possible = least < 0 or most > end if found is None else least <= found <= min(most, end)
        return "" if possible else f"it is rewritten up to {found}, not {least} to {most}"


@attrs.define
class ModelDraft:
    """A draft with the batches that it was given, for the segments of `bases`, which end before `end`."""

    draft: SegmentDraft
    bases: Sequence[int]
    end: int
    kept: dict[int, bytes]
    stale: bool = False


class InterruptedLog(RuleBasedStateMachine):
    """A partition in two directories; each step of a move is a rule, and so is each end of the process."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="tidelog-model-", dir=MEMORY if MEMORY.exists() else None))
        self.lives = 0
        self.model = self.before = ModelOfLog()
        self.drafts: list[ModelDraft] = []
        self.move: ReplicaMove | None = None
        self.place = TwoDirectories(self.root / "0")
        self.interposers = ExitStack()
        self.recorder: Recorder
        self.begun_at = 0
        self.gradual = False
        self.assignments: list[tuple[int, dict[TopicPartition, bytes]]] = []

    @initialize()
    def begin(self) -> None:
        self.live()

    def live(self) -> None:
        """Record what is done from now on, and start."""
        self.interposers = ExitStack()
        self.recorder = Recorder(self.place.root)
        self.interposers.enter_context(Unsynced().installed())
        self.interposers.enter_context(self.recorder.installed())
        self.assignments = [(0, dict(self.place.assigned))]
        self.place.open()
        self.drafts.clear()
        self.move = None
        self.note()

    def note(self, *, gradual: bool = False) -> None:
        """Remember where the next rule begins; a crash may come at any step of one that is `gradual`."""
        self.gradual = gradual
        self.recorder.catch_up()
        self.begun_at = len(self.recorder.operations)
        self.before = copy.deepcopy(self.model)

    @property
    def store(self) -> FilePartitionStore:
        return self.place.store

    # What is done to the log

    @rule(
        sizes=st.lists(st.sampled_from([1, 90, 300]), min_size=1, max_size=6), gap=st.sampled_from([0, 0, 3])
    )
    def append(self, sizes: list[int], gap: int) -> None:
        for size in sizes:
            self.note()
            batch = append(self.store, size, gap=gap)
            self.model.batches[parse_header(batch).base_offset] = batch
            self.model.end = self.store.log_end_offset

    @rule()
    def flush(self) -> None:
        self.note()
        assert self.store.flush() == self.model.end
        self.model.durable = self.model.end

    @rule()
    def run_jobs(self) -> None:
        self.note()
        self.place.run_jobs()

    @rule(prepare=st.booleans())
    def roll(self, prepare: bool) -> None:
        self.note()
        was_empty = not self.store.log.segments.active.size
        if prepare:
            self.store.prepare_roll()
        assert self.store.roll() is not was_empty

    @rule(back=st.integers(1, 12))
    def truncate(self, back: int) -> None:
        self.note(gradual=True)
        offset = max(self.model.end - back, self.store.log_start_offset)
        if offset >= self.model.end:
            return
        self.do_even_before_a_swap(lambda: self.store.truncate_to(offset))
        model = self.model
        model.batches = {
            base: batch for base, batch in model.batches.items() if parse_header(batch).last_offset < offset
        }
        model.end = self.store.log_end_offset
        model.rewritten = None if model.rewritten is None else min(model.rewritten, model.end)
        self.move_is_aborted = self.move_has_begun
        model.durable, model.start, model.deleted = (
            min(offset, model.end) for offset in (model.durable, model.start, model.deleted)
        )
        self.abort_drafts()

    @rule(count=st.integers(1, 3))
    def delete(self, count: int) -> None:
        self.note(gradual=True)
        views = self.store.segments()
        if len(views) <= count:
            return
        offset = views[count].base_offset
        self.do_even_before_a_swap(lambda: self.store.delete_segments_before(offset))
        self.model.start = max(self.model.start, offset)
        self.model.deleted = max(self.model.deleted, offset)
        self.forget_below(offset)

    @rule(ahead=st.integers(1, 5))
    def raise_log_start(self, ahead: int) -> None:
        self.note()
        self.model.start = min(self.model.start + ahead, self.model.end)
        self.store.raise_log_start(self.model.start)

    def forget_below(self, offset: int) -> None:
        self.model.batches = {base: batch for base, batch in self.model.batches.items() if base >= offset}

    @rule(back=st.integers(0, 12))
    def note_rewritten(self, back: int) -> None:
        self.note()
        self.model.rewritten = max(self.model.end - back, 0)
        self.store.set_rewritten_until(POLICY, self.model.rewritten)

    # Drafts

    @rule(
        first=st.integers(0, 5),
        count=st.integers(1, 3),
        keep=st.integers(0, 63),
        elsewhere=st.booleans(),
    )
    def begin_draft(self, first: int, count: int, keep: int, elsewhere: bool = False) -> None:
        self.note()
        views = self.store.segments()[:-1][first : first + count]
        if not views:
            return
        if self.move is not None and self.move_has_begun and not self.move_is_aborted:
            with pytest.raises(LogBusy):
                self.store.draft_segment(views[0].base_offset)
            return
        base, end = views[0].base_offset, views[-1].next_offset
        draft = self.store.draft_segment(base)
        for other in self.drafts:
            other.stale = other.stale or other.bases[0] == base
        inside = [key for key in self.model.batches if base <= key < end]
        kept = {key: self.model.batches[key] for at, key in enumerate(inside) if keep >> (at % 6) & 1}
        if elsewhere:
            draft.take(written_elsewhere(draft.writer(), list(kept.values())))
        else:
            for key, batch in kept.items():
                header = parse_header(batch)
                draft.append(batch, key, header.last_offset, header.max_timestamp)
        self.drafts.append(ModelDraft(draft, [view.base_offset for view in views], end, kept))

    @precondition(lambda self: self.drafts)
    @rule(choice=st.integers(0, 10))
    def replace(self, choice: int) -> None:
        self.note()
        chosen = self.drafts[choice % len(self.drafts)]
        if chosen.stale:
            with pytest.raises(StaleDraft):
                self.store.replace_segments([chosen.draft], chosen.bases)
            return
        if chosen.bases[0] < self.store.segments()[0].base_offset:
            with pytest.raises(ValueError, match="segments"):
                self.store.replace_segments([chosen.draft], chosen.bases)
            return
        self.store.replace_segments([chosen.draft], chosen.bases)
        chosen.stale = True
        for other in self.drafts:
            other.stale = other.stale or (other.bases[0] < chosen.end and chosen.bases[0] < other.end)
        self.model.batches = {
            base: batch
            for base, batch in self.model.batches.items()
            if not chosen.bases[0] <= base < chosen.end or base in chosen.kept
        }

    @precondition(lambda self: self.drafts)
    @rule(choice=st.integers(0, 10))
    def discard(self, choice: int) -> None:
        self.note()
        chosen = self.drafts.pop(choice % len(self.drafts))
        chosen.draft.discard()

    def abort_drafts(self) -> None:
        for draft in self.drafts:
            draft.stale = True

    # The steps of a move

    move_has_begun = False
    move_is_aborted = False
    """A truncation aborted it: it holds up nothing, and its next step starts over."""
    is_decided = False

    @precondition(lambda self: self.move is None)
    @rule()
    def begin_move(self) -> None:
        self.note()
        self.move = self.place.move()
        self.move_has_begun = self.move_is_aborted = self.is_decided = False

    def step(self, step: Callable[[ReplicaMove], object]) -> None:
        self.note()
        move = self.move
        assert move is not None
        try:
            step(move)
        except StartOver:
            move.end()
            move.remove_copy()
            self.move_has_begun = self.move_is_aborted = False

    @precondition(lambda self: self.move is not None and not self.is_decided)
    @rule()
    def copy_some(self) -> None:
        self.abort_drafts()
        self.move_has_begun = True
        self.step(lambda move: move.copy_some())

    @precondition(lambda self: self.move is not None and self.move_has_begun and not self.is_decided)
    @rule()
    def join(self) -> None:
        self.step(lambda move: move.is_in_sync or move.join())

    @precondition(lambda self: self.move is not None and self.move.is_in_sync and not self.is_decided)
    @rule()
    def make_durable(self) -> None:
        self.step(lambda move: move.make_durable())

    @precondition(lambda self: self.move is not None and self.move.is_in_sync and not self.is_decided)
    @rule()
    def decide(self) -> None:
        def make_durable_and_decide(move: ReplicaMove) -> None:
            move.make_durable()
            self.place.decide(move)
            self.is_decided = True
            self.assignments.append((len(self.recorder.operations), dict(self.place.assigned)))

        self.step(make_durable_and_decide)

    @precondition(lambda self: self.is_decided)
    @rule()
    def swap(self) -> None:
        self.note()
        self.swap_now()

    def swap_now(self) -> None:
        move, self.move = self.move, None
        assert move is not None
        assert move.swap()
        move.remove_source()
        self.is_decided = self.move_has_begun = self.move_is_aborted = False

    @precondition(lambda self: self.move is not None and not self.is_decided)
    @rule()
    def give_up(self) -> None:
        self.note()
        move, self.move = self.move, None
        assert move is not None
        self.place.give_up(move)
        self.move_has_begun = self.move_is_aborted = False

    def do_even_before_a_swap(self, change: Callable[[], object]) -> None:
        """Change segments; from the decision to the swap that waits, in a thread."""
        if not self.is_decided:
            change()
            return
        waiting = threading.Thread(target=change, daemon=True)
        waiting.start()
        waiting.join(0.01)
        assert waiting.is_alive()
        self.swap_now()
        waiting.join(DEADLINE_S)
        assert not waiting.is_alive()

    # Ends of the process

    def end_of_life(self) -> None:
        self.interposers.close()
        self.is_decided = self.move_has_begun = self.move_is_aborted = False

    @rule()
    def stop_and_start(self) -> None:
        if self.is_decided:
            self.swap_now()
        if self.move is not None:
            self.move.end()
        self.place.close()
        self.end_of_life()
        self.model.durable = self.model.end
        self.model.deleted = self.model.start
        self.live()

    @rule(
        part=st.floats(0, 1),
        data=st.sampled_from(DataFate),
        names=st.sampled_from(NameFate),
        seed=st.integers(0, 1000),
    )
    def lose_power(self, part: float, data: DataFate, names: NameFate, seed: int) -> None:
        self.crash(part, PowerCut(data, names, seed))

    @rule(part=st.floats(0, 1))
    def be_killed(self, part: float) -> None:
        self.crash(part, PowerCut(DataFate.KEPT, NameFate.KEPT))

    def crash(self, part: float, cut: PowerCut) -> None:
        """Go on with what is left of the files somewhere in the middle of the last rule, or after it."""
        self.recorder.catch_up()
        operations = self.recorder.operations
        moment = self.begun_at + round(part * (len(operations) - self.begun_at))
        self.place.abandon()
        self.end_of_life()
        self.lives += 1
        device = self.recorder.start
        for operation in operations[:moment]:
            device.apply(operation)
        root = self.root / str(self.lives)
        cut.leave(device, root)
        shutil.rmtree(self.place.root)
        assigned = [known for done, known in self.assignments if done <= moment][-1]
        spec = self.place.spec
        self.place = TwoDirectories(root, assigned)
        self.place.spec = spec
        possible = [Possible(self.model)]
        if moment < len(operations):
            possible.append(Possible(self.before))
        if moment < len(operations) and self.gradual:
            possible = [Possible(self.before, self.model)]
        self.live()
        killed = cut == PowerCut(DataFate.KEPT, NameFate.KEPT)
        self.adopt(possible, killed=killed)

    def adopt(self, possible: Sequence[Possible], *, killed: bool) -> None:
        """Check what a crash left against what was there before or after the last rule, and go on with it."""
        store = self.store
        first = store.segments()[0].base_offset
        content = read_all(store, first)
        found: dict[int, bytes] = {}
        for header in headers_of(content):
            found[header.base_offset], content = content[: header.size], content[header.size :]
        reasons = [each.why_not(found, store, killed=killed) for each in possible]
        assert "" in reasons, (reasons, list(found), store.log_start_offset)
        (chosen, *_) = [each for each, why in zip(possible, reasons, strict=True) if not why]
        end = store.log_end_offset
        self.model = ModelOfLog(
            found,
            end,
            min(chosen.durable, end),
            store.log_start_offset,
            chosen.deleted,
            store.rewritten_until(POLICY),
        )
        self.note()

    @invariant()
    def it_is_what_the_model_has(self) -> None:
        if not self.lives and not hasattr(self.place, "store"):
            return
        model, store = self.model, self.store
        assert self.place.errors == []
        assert store.log_end_offset == model.end
        assert store.log_start_offset == model.start
        assert store.rewritten_until(POLICY) == model.rewritten
        assert read_all(store) == model.left()

    def teardown(self) -> None:
        self.interposers.close()
        self.place.abandon()
        shutil.rmtree(self.root)


TestInterruptedLog = InterruptedLog.TestCase
TestInterruptedLog.settings = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture
def log() -> Iterator[InterruptedLog]:
    """The log of the model test, for sequences of rules that once failed."""
    interrupted = InterruptedLog()
    try:
        interrupted.begin()
        yield interrupted
        interrupted.it_is_what_the_model_has()
    finally:
        interrupted.teardown()


def test_delete_segments_before_outlives_a_loss_of_power_though_nothing_was_flushed(
    log: InterruptedLog,
) -> None:
    log.append(gap=0, sizes=[1, 1, 1, 90, 300])
    log.delete(count=1)
    log.lose_power(part=1.0, data=DataFate.KEPT, names=NameFate.LOST, seed=0)
    assert log.store.log_start_offset == 4


def test_truncate_to_checkpoints_a_log_start_that_it_lowers(log: InterruptedLog) -> None:
    """The log start lies between two batches, and the second one is truncated."""
    log.append(gap=0, sizes=[1])
    log.append(gap=3, sizes=[300])
    log.raise_log_start(ahead=3)
    log.stop_and_start()
    log.truncate(back=9)
    assert log.store.log_start_offset == 1
    log.be_killed(part=1.0)
    assert log.store.log_start_offset == log.store.log_end_offset == 1


def test_log_loader_drops_segments_durably(log: InterruptedLog) -> None:
    """Bytes that are no batch behind a segment's end cut the log there; then the power fails once more."""
    log.append(gap=0, sizes=[1, 1, 1, 1, 1, 300])
    log.lose_power(part=1.0, data=DataFate.OVERGROWN, names=NameFate.KEPT, seed=0)
    assert log.store.log_end_offset == 5
    log.lose_power(part=1.0, data=DataFate.KEPT, names=NameFate.LOST, seed=0)
    assert log.store.log_end_offset == 5


def test_replace_segments_replaces_an_empty_segment(log: InterruptedLog) -> None:
    """A loss of power left it empty, with others behind it."""
    log.append(gap=0, sizes=[1, 1, 1, 90, 300])
    log.lose_power(part=1.0, data=DataFate.LOST, names=NameFate.KEPT, seed=0)
    assert [view.size_bytes for view in log.store.segments()] == [0, 0]
    log.begin_draft(first=0, count=1, keep=0)
    log.replace(choice=0)


def test_log_loader_cuts_a_segment_durably(log: InterruptedLog) -> None:
    """Zeros behind its end are cut off, the log goes on in another segment, and the power fails once more."""
    log.append(gap=0, sizes=[300])
    log.stop_and_start()
    log.append(gap=0, sizes=[1])
    log.lose_power(part=1.0, data=DataFate.ZEROS, names=NameFate.KEPT, seed=0)
    assert log.store.log_end_offset == 1
    log.append(gap=0, sizes=[300, 300])
    log.lose_power(part=1.0, data=DataFate.LOST, names=NameFate.KEPT, seed=0)
