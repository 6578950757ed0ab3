"""For how long the data is expected to stay as it is."""

from __future__ import annotations

import pytest

from clash.coordinator.adaptive.stability import ASSUMED_WINDOWS, Stability

WINDOW = 1000.0  # tuples


def after(*epochs: tuple[float, bool]) -> Stability:
    """Epochs as (windows of tuples, whether the data has drifted)."""
    stability = Stability()
    for windows, drifted in epochs:
        stability = stability.after_epoch(round(windows * WINDOW), drifted)
    return stability


def test_few_drifts_say_nothing() -> None:
    assert Stability().horizon(WINDOW) == ASSUMED_WINDOWS
    assert after((50, False)).horizon(WINDOW) == ASSUMED_WINDOWS
    assert after((1, True), (2, False), (1, True)).horizon(WINDOW, assumed=7) == 7


def test_the_usual_time_between_drifts_counts() -> None:
    assert after((2, True), (2, True), (9, True), (2, True), (1, False)).horizon(WINDOW) == pytest.approx(2)


def test_one_change_that_shows_in_several_epochs_is_one_drift() -> None:
    spell = [(0.25, True)] * 3 + [(0.25, False)] * 13  # shows for three quarters of a window, every four windows
    assert after(*spell * 5).horizon(WINDOW) == pytest.approx(4)


def test_data_that_drifts_all_the_time_has_a_drift_about_every_window() -> None:
    assert after(*[(0.25, True)] * 40).horizon(WINDOW) == pytest.approx(1.25)


def test_data_that_has_been_stable_for_longer_than_ever_is_expected_to_stay_so() -> None:
    drifting = [*[(1, True), (3, False)] * 6, (1, True)]
    assert after(*drifting).horizon(WINDOW) == pytest.approx(4)
    assert after(*drifting, (3, False)).horizon(WINDOW) == pytest.approx(4)
    assert after(*drifting, (48, False)).horizon(WINDOW) == pytest.approx(49)


def test_only_the_last_drifts_count() -> None:
    assert after(*[(50, True)] * 20, *[(2, True)] * 20).horizon(WINDOW) == pytest.approx(2)


def test_it_depends_on_tuples_in_a_window_alone() -> None:
    drifting = after(*[(3, True)] * 6)
    assert drifting.horizon(WINDOW / 2) == pytest.approx(6)
    assert drifting.horizon(0.0) > 0
