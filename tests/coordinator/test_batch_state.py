"""The states of a batch: which transitions are allowed, and for which batch; every other one is refused."""

from __future__ import annotations

import itertools

import pytest

from clash.coordinator.batch_state import BatchProgress, BatchState

IDLE, DECIDED, RUNNING, COMMITTED, PUBLISHED = BatchState
SAME, NEXT = 0, 1  # the batch that the transition is for, after that of the state before

TRANSITIONS = {
    (IDLE, DECIDED): NEXT,  # the first batch
    (DECIDED, RUNNING): SAME,
    (RUNNING, RUNNING): SAME,  # run again after an attempt that did not report its failure
    (RUNNING, DECIDED): SAME,  # an attempt has failed: its decision stands
    (RUNNING, COMMITTED): SAME,
    (COMMITTED, PUBLISHED): SAME,
    (COMMITTED, DECIDED): NEXT,  # after a start: the files of the committed batch were published before
    (PUBLISHED, PUBLISHED): SAME,  # Spark did not learn of the commit
    (PUBLISHED, DECIDED): NEXT,
}
PAIRS = list(itertools.product(BatchState, BatchState))


def name(pair: tuple[BatchState, BatchState]) -> str:
    return f"{pair[0].value}-{pair[1].value}"


@pytest.mark.parametrize("pair", TRANSITIONS, ids=name)
def test_an_allowed_transition_is_made_for_its_batch_only(pair: tuple[BatchState, BatchState]) -> None:
    before, after = pair
    for step in range(-2, 4):
        progress = BatchProgress(before, 7)
        if step == TRANSITIONS[pair]:
            progress.move(after, 7 + step)
            assert (progress.state, progress.batch) == (after, 7 + step)
        else:
            with pytest.raises(AssertionError, match=f"batch {7 + step} cannot be {after.value}: batch 7 is {before.value}"):
                progress.move(after, 7 + step)
            assert (progress.state, progress.batch) == (before, 7)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in TRANSITIONS], ids=name)
def test_every_other_transition_is_refused(pair: tuple[BatchState, BatchState]) -> None:
    before, after = pair
    for batch in range(5, 11):
        progress = BatchProgress(before, 7)
        with pytest.raises(AssertionError, match=f"batch 7 is {before.value} and cannot become {after.value}"):
            progress.move(after, batch)
        assert (progress.state, progress.batch) == (before, 7)


def test_a_run_of_batches() -> None:
    progress = BatchProgress(IDLE, -1)
    for batch in range(3):
        for state in (DECIDED, RUNNING, COMMITTED, PUBLISHED):
            progress.move(state, batch)
        progress.move(PUBLISHED, batch)
    assert (progress.state, progress.batch) == (PUBLISHED, 2)
