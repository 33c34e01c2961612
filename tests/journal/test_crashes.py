"""Any sequence of appends, syncs and recyclings, stopped anywhere by a kill or a power loss: nothing promised is lost."""

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shardfs.errors import DeviceFailed, NoSpace
from shardfs.format.frames import Operation
from shardfs.ids import Epoch, Lsn, RequestId, ShardId
from shardfs.journal.log import Journal, create_journal
from shardfs.journal.replay import Replayed, replay
from shardfs.journal.segments import MAX_SPARES
from shardfs.observe.counters import Counters
from tests.journal.simulated import SimulatedDisk, Stopped

DIRECTORY = "/volume/journal"
VOLUME = b"volume-of-a-test"
SEGMENT_BYTES = 6 * 1024


class Plan(NamedTuple):
    """The process stops after so many calls; `power`: and the machine with it."""

    calls: int
    power: bool


class Crashes(RuleBasedStateMachine):
    """The model is the list of acknowledged operations, and how many of them a power loss must leave.

    Operations that failed or were cut off since the last one that was acknowledged are `unsure`: one of them may turn up.
    """

    @initialize(seed=st.integers(0, 1 << 32))
    def create(self, seed: int) -> None:
        self.disk = SimulatedDisk(seed)
        self.operations: list[Operation] = []
        self.unsure: list[Operation] = []
        self.floor = 0
        self.recycled = 0
        self.requests = 0
        self.epoch = 0
        self.plan: Plan | None = None
        create_journal(self.disk, DIRECTORY, VOLUME, segment_bytes=SEGMENT_BYTES)
        self._restart(power=False)

    @rule(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=20))
    def append(self, sizes: list[int]) -> None:
        with _Guard(self):
            for size in sizes:
                self._append(size)

    @rule(method=st.sampled_from(("pwrite", "rename", "create")), size=st.integers(0, 400))
    def append_to_a_full_disk(self, method: str, size: int) -> None:
        with _Guard(self):
            self.disk.refusals[method] = [NoSpace("full")]
            try:
                self._append(size)
            except NoSpace:
                assert self.journal.last_lsn == len(self.operations)
            self.disk.refusals.clear()

    @rule(behind=st.integers(0, 30), meanwhile=st.integers(0, 6))
    def sync(self, behind: int, meanwhile: int) -> None:
        through = Lsn(max(0, len(self.operations) - behind))
        self.disk.during_sync = lambda: self._append_beside_a_sync(meanwhile)
        with _Guard(self):
            self.journal.sync(through)
            self.floor = max(self.floor, through)
            assert self.journal.durable_lsn == self.floor
        self.disk.during_sync = lambda: None

    def _append_beside_a_sync(self, count: int) -> None:
        """What the loop thread does meanwhile; it would wait for the lock where a rotation makes a spare."""
        if not self.journal._lock.locked():
            for _ in range(count):
                self._append(300)

    @rule(power=st.booleans(), method=st.sampled_from(("sync", "sync_dir")))
    def sync_on_a_failing_disk(self, power: bool, method: str) -> None:
        with _Guard(self):
            self.journal.prepare()  # a sync that fails while a spare is made breaks nothing
            self.disk.refusals[method] = [DeviceFailed("broken")]
            try:
                self.journal.sync(self.journal.last_lsn)
                self.floor = len(self.operations)
            except DeviceFailed:
                self._must_refuse()
                self._restart(power)
        self.disk.refusals.clear()

    def _must_refuse(self) -> None:
        with pytest.raises(DeviceFailed, match="closed since a sync failed"):
            self._append(1)
        with pytest.raises(DeviceFailed):
            self.journal.sync(self.journal.last_lsn)

    @rule(sizes=st.lists(st.integers(0, 400), max_size=8), calls=st.integers(0, 4), power=st.booleans())
    def crash_in_a_sync(self, sizes: list[int], calls: int, power: bool) -> None:
        self.append(sizes)
        self.plan = Plan(calls, power)
        self.sync(0, 0)

    @rule(behind=st.integers(0, 30))
    def recycle(self, behind: int) -> None:
        below = Lsn(max(1, self.floor + 1 - behind))
        self.recycled = max(self.recycled, below - 1)
        with _Guard(self):
            self.journal.recycle(below)

    @rule()
    def prepare(self) -> None:
        with _Guard(self):
            self.journal.prepare()

    @rule(calls=st.integers(0, 15), power=st.booleans())
    def plan_a_crash(self, calls: int, power: bool) -> None:
        self.plan = Plan(calls, power)

    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        self._restart(power)

    @invariant()
    def the_directory_holds_what_the_journal_counts(self) -> None:
        names = self.disk.list_dir(DIRECTORY)
        segments = [name for name in names if name.startswith("j-")]
        assert len(segments) == self.journal.segments
        assert len(names) - len(segments) <= MAX_SPARES
        assert {len(self.disk.content(f"{DIRECTORY}/{name}")) for name in names} == {SEGMENT_BYTES}
        assert self.journal.size_bytes == len(names) * SEGMENT_BYTES

    def _append(self, size: int) -> None:
        self.requests += 1
        operation = Operation(RequestId(self.requests), "create", ((ShardId(0), b"key", bytes(size)), (ShardId(1), b"gone", None)))
        self.unsure.append(operation)
        assert self.journal.append(*operation) == len(self.operations) + 1
        self.operations.append(operation)
        self.unsure.clear()

    def _restart(self, power: bool) -> None:
        """Recover, with further crashes in the middle, until a new journal stands."""
        rng = self.disk.rng
        while True:
            self.disk.refusals.clear()
            self.disk.stop_in = None
            if power:
                self.disk.lose_power()
            found = self._replay()
            assert not (power and found.same_boot)
            if rng.random() < 0.4:
                self.disk.stop_in = rng.randint(0, 12)
            power = rng.random() < 0.5
            try:
                self.epoch = found.last_epoch + 1
                self.journal = Journal.start(
                    self.disk, DIRECTORY, VOLUME, found, Epoch(self.epoch), Counters(), segment_bytes=SEGMENT_BYTES
                )
                break
            except Stopped:
                continue
        self.disk.stop_in = None
        self.plan = None
        assert self.journal.durable_lsn == found.synced_lsn
        self.floor = found.synced_lsn

    def _replay(self) -> Replayed:
        """Check what a replay finds against the model, and go on with that."""
        found = replay(self.disk, DIRECTORY, VOLUME)
        assert replay(self.disk, DIRECTORY, VOLUME) == found
        if found.same_boot and found.last_lsn == len(self.operations) + 1:
            (_, unacknowledged), *_ = found.operations(Lsn(len(self.operations)))
            assert unacknowledged in self.unsure
            self.operations.append(unacknowledged)
        self.unsure.clear()
        assert self.floor <= found.synced_lsn <= found.last_lsn <= len(self.operations)
        assert found.last_lsn == (len(self.operations) if found.same_boot else found.synced_lsn)
        assert found.torn is None or not found.same_boot
        assert found.last_epoch <= self.epoch
        assert found.first_lsn <= self.recycled + 1
        del self.operations[found.last_lsn :]
        expected = [(lsn + 1, operation) for lsn, operation in enumerate(self.operations)]
        assert list(found.operations()) == expected[found.first_lsn - 1 :]
        assert list(found.operations(Lsn(self.recycled))) == expected[self.recycled :]
        return found


class _Guard:
    """Lets a planned crash happen inside, and recovers from it."""

    def __init__(self, machine: Crashes) -> None:
        self._machine = machine

    def __enter__(self) -> None:
        if self._machine.plan is not None:
            self._machine.disk.stop_in = self._machine.plan.calls

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        machine, plan = self._machine, self._machine.plan
        machine.disk.during_sync = lambda: None
        machine.disk.stop_in = None
        if not isinstance(error, Stopped):
            return False
        assert plan is not None
        machine._restart(plan.power)
        return True


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
