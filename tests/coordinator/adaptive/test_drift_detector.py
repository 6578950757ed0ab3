"""When data counts as drifted, by shares that cost nothing to have."""

from __future__ import annotations

from collections import Counter

import clash
from clash.coordinator.adaptive.drift_detector import EpochProfile, has_drifted, profile_epoch
from clash.protocol.reports import ProbeCount
from clash.statistics import ProbeStep

QUERY = clash.optimize({"q": "R(a), S(a)"}).queries[0]
R, S = sorted(QUERY.join.relations)
BY_R, BY_S = (ProbeStep(origin, QUERY.join.sub([origin]), QUERY.join.sub([other]), QUERY.join) for origin, other in ((R, S), (S, R)))


def test_the_origin_that_finds_a_result_does_not_matter() -> None:
    before = profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 400), BY_S: ProbeCount(500, 0)})
    assert not has_drifted([before], profile_epoch(Counter(R=5000, S=5000), {BY_R: ProbeCount(5000, 0), BY_S: ProbeCount(5000, 4100)}))


def test_changed_rates_and_results_are_drift() -> None:
    before = profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 200), BY_S: ProbeCount(500, 200)})
    assert has_drifted([before], profile_epoch(Counter(R=900, S=100), {BY_R: ProbeCount(900, 200), BY_S: ProbeCount(100, 200)}))
    assert has_drifted([before], profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 400), BY_S: ProbeCount(500, 400)}))
    assert has_drifted([before], profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 0), BY_S: ProbeCount(500, 0)}))


def test_small_counts_are_no_evidence() -> None:
    before = profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 2), BY_S: ProbeCount(500, 3)})
    assert not has_drifted([before], profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, 9), BY_S: ProbeCount(500, 9)}))
    assert not has_drifted([], before)


def test_waves_are_no_drift_once_they_were_seen() -> None:
    def profile(results: int) -> EpochProfile:
        return profile_epoch(Counter(R=500, S=500), {BY_R: ProbeCount(500, results), BY_S: ProbeCount(500, 0)})

    waves = [profile(results) for results in (100, 400, 250, 100)]
    assert has_drifted(waves[:1], waves[1])
    assert not any(has_drifted(waves, profile(results)) for results in (90, 200, 450))
    assert has_drifted(waves, profile(700))
    assert has_drifted(waves, profile(50))


def test_a_stream_that_starts_or_goes_silent_is_drift() -> None:
    two, three = profile_epoch(Counter(R=7000, S=7000), {}), profile_epoch(Counter(R=7000, S=7000, T=6000), {})
    assert has_drifted([two], three)
    assert has_drifted([three], two)
    assert not has_drifted([two, three], three)
    assert not has_drifted([three], profile_epoch(Counter(), {}))
