"""All systems that take results of a run in transactions: which batches they have, and what happens when they do not answer.

Invariant: a system's marker is there before the first batch whose results go to it is committed. So a batch that is handed over again is
left out if the marker has its number, and delivered if the marker has an earlier one. No marker means that it was lost, as with a topic
that was deleted: then it is not known whether the last batch is there, and the start is refused unless that batch is known to be over.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event, RLock
from typing import Any, TypeVar

from clash.delivery.target import Destination, FencedError, Output, RefusedError, Target, UnavailableError
from clash.errors import CheckpointError, OptionError, SinkError
from clash.hints import listed
from clash.state.failpoints import reach

_LOG = logging.getLogger("clash")
_RETRY = 0.5  # seconds between two attempts
_COMMITTED = "the results are committed; a new start hands them over"
_LATER = "start again when it does"
T = TypeVar("T")
D = TypeVar("D", Destination[Any], Output[Any])


class Delivery:
    """One system. `sink`: one that goes there; `wait`: so long, in seconds, it may fail to answer before the run fails."""

    def __init__(self, target: Target[Any], sink: Any, wait: float) -> None:
        self.target, self.sink, self.wait = target, sink, wait
        self._session = secrets.token_hex(8)
        self._is_open = False
        self._is_signed = False  # whether the marker is of this session
        self._last = -1

    def prepare(self, destinations: Sequence[Destination[Any]]) -> None:
        self._until_it_answers("at the start", lambda: self.target.prepare(destinations), _LATER)

    def begin(self, last: int, is_uncertain: bool, lost_marker: str) -> None:
        """Opens the system. `last`: the last committed batch; `is_uncertain`: whether that batch may be missing there."""
        marker = self._until_it_answers("at the start", self.target.open, _LATER)
        if marker is not None and marker > last:
            raise CheckpointError(
                "a sink has results of batches that the checkpoint does not have",
                f"{self.target.name}, {self.target.marker_place}: batch {marker} is there, the last one of the checkpoint is {last}",
                f"the checkpoint is an older copy: restore the newest one; to go on with this one, and get results twice, delete the "
                f"{self.target.marker_place}",
            )
        if marker is None and is_uncertain and lost_marker == "fail":
            raise self._lost(last)
        if marker is None:
            marker = last - 1 if is_uncertain and lost_marker == "repeat" else last
        self._last, self._is_open = marker, True
        self._until_it_answers("at the start", lambda: self._write(self._last, ()), _LATER)

    def deliver(self, batch: int, outputs: Sequence[Output[Any]]) -> None:
        """Makes the results of a batch visible, unless they are. Returns when they are; SinkError if that takes too long."""
        outputs = [output for output in outputs if output.rows]
        if batch <= self._last or not outputs:
            return
        queries = ", ".join(output.query for output in outputs)
        self._until_it_answers(f"batch {batch} of {queries}", lambda: self._write(batch, outputs))

    def _write(self, batch: int, outputs: Sequence[Output[Any]]) -> None:
        if not self._is_open:
            self._open_again(batch)
        if outputs and batch <= self._last:
            return
        if outputs:
            reach("before-transaction")
        self.target.write(batch, outputs, self._session)
        if outputs:
            reach("after-transaction")
        self._last, self._is_signed = batch, True

    def _open_again(self, batch: int) -> None:
        """After a failure. The last transaction may have been committed without an answer: the marker says whether it was."""
        if self._is_signed and self.target.owner() not in (None, self._session):
            raise FencedError
        marker = self.target.open()
        if marker is None and self._is_signed:
            raise self._lost(batch)
        self._last, self._is_open = self._last if marker is None else marker, True

    def _lost(self, batch: int) -> CheckpointError:
        return CheckpointError(
            "a sink has lost the number of its last batch",
            f"{self.target.name}: the {self.target.marker_place} has none; it is not known whether the results of batch {batch} are there",
            'look for them, and start once with lost_marker="skip" if they are there, or lost_marker="repeat" if they are not',
        )

    def _until_it_answers(self, what: str, action: Callable[[], T], hint: str = _COMMITTED) -> T:
        deadline, is_logged = time.monotonic() + self.wait, False
        while True:
            began = time.monotonic()  # one attempt begins after the deadline: the machine may have slept
            try:
                return action()
            except (UnavailableError, FencedError) as error:
                if isinstance(error, FencedError) and self._is_taken():
                    raise self._fenced(what) from None
                self._give_up()
                if began > deadline or self.target.stopping.is_set():
                    detail = f"{self.target.name}, {what}: {error} (waited for {self.wait:g} s)"
                    raise SinkError("a sink does not answer", detail, hint) from None
                if not is_logged:
                    _LOG.warning("%s does not answer, %s: %s; trying again for %g s", self.target.name, what, error, self.wait)
                    is_logged = True
                self.target.stopping.wait(_RETRY)
            except RefusedError as error:
                self._give_up()
                detail = f"{self.target.name}, {what}: {error.detail}"
                raise SinkError("a sink does not take the results", detail, f"{error.hint}; {hint}") from None
            except BaseException:
                self._give_up()
                raise

    def _is_taken(self) -> bool:
        """Whether another session has the target, rather than the system has ended ours, as it does with one that takes too long."""
        try:
            return not self._is_signed or self.target.owner() not in (None, self._session)
        except UnavailableError:
            return False

    def _fenced(self, what: str) -> SinkError:
        self._give_up()
        return SinkError(
            "another run has taken over a sink",
            f"{self.target.name}, {what}",
            "two programs have the same checkpoint, or a copy of it: stop one of them; a copy needs a checkpoint of its own",
        )

    def _give_up(self) -> None:
        self._is_open = False
        self.target.close()


class Deliveries:
    """The systems of a run, by name. A user's thread may add one while a batch is delivered."""

    def __init__(self, make_target: Callable[[Any, Event], Target[Any]]) -> None:
        self._make_target = make_target
        self._stopping = Event()
        self._all: dict[str, Delivery] = {}
        self._lock = RLock()

    def begin(self, destinations: Iterable[Destination[Any]], last: int, uncertain: Iterable[Destination[Any]] = ()) -> None:
        """Opens the systems, unless they are open. `last`: the last committed batch; `uncertain`: what it has results for, where it may
        not be over."""
        with self._lock:
            unsure = _by_system(uncertain).keys()
            for system, group in _by_system(destinations).items():
                known = self._all.get(system)
                sinks = [destination.sink for destination in group]
                _refuse_other_access(sinks if known is None else [known.sink, *sinks])
                wait = max(sink.wait_seconds for sink in sinks)
                if known is None:
                    self._all[system] = self._open(group, wait, last, system in unsure)
                else:
                    known.wait = max(known.wait, wait)
                    known.prepare(group)

    def _open(self, group: Sequence[Destination[Any]], wait: float, last: int, is_uncertain: bool) -> Delivery:
        sinks = [destination.sink for destination in group]
        delivery = Delivery(self._make_target(sinks[0], self._stopping), sinks[0], wait)
        try:
            delivery.prepare(group)
            same = next((other.target.name for other in self._all.values() if other.target.identity == delivery.target.identity), None)
            if same is not None:  # two sessions of one checkpoint there would take the system from each other
                hint = "write the same address for all sinks that go there"
                raise OptionError("two sinks name one system differently", f"{same} and {delivery.target.name}", hint)
            lost_marker = next((sink.lost_marker for sink in sinks if sink.lost_marker != "fail"), "fail")
            delivery.begin(last, is_uncertain, lost_marker)
        except BaseException:
            delivery.target.close()
            raise
        return delivery

    def deliver(self, batch: int, outputs: Iterable[Output[Any]]) -> None:
        """One transaction per system, with the results of all queries that go there."""
        with self._lock:
            for system, group in _by_system(outputs).items():
                self._all[system].deliver(batch, group)

    def stop(self) -> None:
        """The run is to end: a batch that waits for a system fails, and is delivered by the next start."""
        self._stopping.set()

    def close(self) -> None:
        self.stop()
        with self._lock:
            for delivery in self._all.values():
                delivery.target.close()
            self._all = {}


def _by_system(each: Iterable[D]) -> Mapping[str, list[D]]:
    grouped: dict[str, list[D]] = {}
    for one in each:
        grouped.setdefault(one.sink.system, []).append(one)
    return grouped


def _refuse_other_access(sinks: Sequence[Any]) -> None:
    """One connection serves all sinks of a system. Values may be secret: names are shown alone."""
    first = dict(sinks[0].access)
    for sink in sinks[1:]:
        other = dict(sink.access)
        names = sorted(name for name in {*first, *other} if first.get(name) != other.get(name))
        if names:
            hint = "give all sinks that go there the same options"
            raise OptionError("two sinks of one system have different options", f"{sink.system}: {listed(names)}", hint)
