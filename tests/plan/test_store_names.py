"""The ids of stores: safe as directories, unique, and the same under every plan that has the store."""

from __future__ import annotations

import re

import clash


def test_names_are_safe_and_stable() -> None:
    texts = {"q1": "R(a), S(a,b), T(b)", "q2": "S(b), T(b,c), U(c)"}
    statistics = clash.Statistics(rates=dict.fromkeys("RSTU", 100), sizes={("S", "T"): 1})
    names = {
        strategy: [store.id for store in clash.optimize(texts, statistics, workers=5, layouts="many", strategy=strategy).topology.stores]
        for strategy in ("global", "independent")
    }
    assert names["global"][:4] == ["s_R", "s_S", "s_T", "s_U"]
    for found in names.values():
        assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in found)
        assert len(set(found)) == len(found)
    assert not set(names["global"]) & set(names["independent"])
