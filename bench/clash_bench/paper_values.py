"""The points of the paper's six figures on the integer program (section "ILP Optimization")."""

from __future__ import annotations

from collections.abc import Mapping

COUNTS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # queries per set (n_Q)

Line = Mapping[int, float]  # x → y


def _over_counts(*values: float) -> Line:
    return dict(zip(COUNTS, values, strict=True))


# (relations of the schema, line) → values over n_Q, all queries of three relations
COSTS: Mapping[tuple[int, str], Line] = {
    (10, "individual"): _over_counts(184260, 320600, 434120, 525580, 583920, 663100, 702340, 729640, 767740, 793340),
    (10, "shared"): _over_counts(133110, 204900, 261520, 306280, 333370, 369350, 387990, 400490, 417890, 430390),
    (100, "individual"): _over_counts(
        194740.00, 390080.12, 586920.18, 782110.17, 974180.06, 1170980.36, 1367020.18, 1565020.52, 1752870.71, 1945310.47
    ),
    (100, "shared"): _over_counts(
        189340.00, 368280.12, 538170.18, 699360.17, 856580.06, 1005730.36, 1150070.18, 1296070.52, 1429070.71, 1554760.47
    ),
}
SIZES: Mapping[tuple[int, str], Line] = {
    (10, "variables"): _over_counts(389.76, 761.56, 1010.49, 1206.73, 1314.36, 1470.24, 1545.06, 1599.52, 1668.74, 1717.8),
    (10, "orders"): _over_counts(165.65, 340.69, 461.89, 559.41, 613.46, 691.27, 728.75, 756.08, 790.69, 815.18),
    (100, "variables"): _over_counts(428.03, 973.74, 1626.08, 2273.02, 3086.7, 3836.92, 4661.48, 5443.85, 6469.75, 7376.79),
    (100, "orders"): _over_counts(167.36, 389.46, 662.65, 934.8, 1284.93, 1610.21, 1971.4, 2314.98, 2775.1, 3180.1),
}

# 100 relations; seconds, with Gurobi on a 3.1 GHz Core i7
SECONDS: Line = _over_counts(0.05135, 0.05869, 0.06797, 0.07615, 0.08319, 0.08971, 0.09762, 0.10049, 0.11547, 0.12571)
SECONDS_BY_SIZE: Mapping[int, Line] = {  # queries per set → over relations per query
    10: {3: 0.04382, 4: 0.40843, 5: 12.63916},
    20: {3: 0.05737, 4: 1.06708, 5: 45.31118},
    30: {3: 0.06797, 4: 1.82286, 5: 135.48408},
}


def gurobi(count: int, size: int) -> float | None:
    """The paper's seconds for that many queries of that size over 100 relations; None where it plots no point."""
    return SECONDS_BY_SIZE.get(count, {}).get(size) or (SECONDS.get(count) if size == 3 else None)
