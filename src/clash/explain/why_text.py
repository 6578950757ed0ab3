"""The answer to why a query costs what it does, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from clash.explain.tables import align
from clash.explain.why import Broadcast, NearlyShared, NotKept, Why
from clash.explain.wording import join_names, number, percent


def why_json(why: Why) -> str:
    return json.dumps({"format": "clash why", "version": 1, **asdict(why)}, indent=2, ensure_ascii=False)


def why_text(why: Why) -> str:
    share = f" ({percent(why.share / why.total)} of the plan)" if why.total else ""
    blocks = [
        [f"WHY {why.query} costs {number(why.share)}{share}", *_compared(why)],
        _parts(why),
        _listed("BROADCASTS", [_broadcast(broadcast) for broadcast in why.broadcasts]),
        _listed("INTERMEDIATE RESULTS that are not kept", [_not_kept(candidate, why.mirs) for candidate in why.not_kept]),
        _nearly_shared(why.nearly_shared),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block) + "\n"


def _compared(why: Why) -> list[str]:
    lines = [
        ("its share, with shared parts divided among their users", why.share),
        ("counted in full", why.in_full),
        ("alone, as the only query", why.alone),
        ("on the margin: what the plan costs less without it", why.marginal),
    ]
    return align([(f"  {what}", number(cost)) for what, cost in lines], left=(0,))


def _parts(why: Why) -> list[str]:
    rows = [("DEAREST PARTS", "cost", "its share", "used by")]
    rows += [(f"  {part.what}", number(part.cost), number(part.share), join_names(part.users)) for part in why.parts]
    return align(rows) if why.parts else []


def _listed(title: str, found: Iterable[list[str]]) -> list[str]:
    lines = [line for each in found for line in each]
    return [title, *lines] if lines else []


def _broadcast(broadcast: Broadcast) -> list[str]:
    instead = f"; under {' or '.join(broadcast.instead)} it would go to one" if broadcast.instead else ""
    kept = f"    the layout serves other steps, which cost {number(broadcast.served)}"
    lines = [f"  {broadcast.what}   cost {number(broadcast.cost)}", f"    each tuple goes to {broadcast.places} workers{instead}"]
    return [*lines, kept] if broadcast.served else lines


def _not_kept(candidate: NotKept, mirs: bool) -> list[str]:
    if not mirs:
        verdict = "the plan was asked for without them"
    elif candidate.keeping >= candidate.saves:
        verdict = "too dear"
    else:
        verdict = "with the cost of feeding it, no plan that has it was found to be cheaper"
    saves = f"keeping it costs {number(candidate.keeping)}, and saves at most {number(candidate.saves)}"
    return [f"  {candidate.what}   {number(candidate.rows)} rows", f"    {saves}: {verdict}"]


def _nearly_shared(found: Iterable[NearlyShared]) -> list[str]:
    """Steps that miss being shared for the same reason are written together."""
    lines = ["NEARLY SHARED"]
    by_reason: dict[tuple[str, tuple[str, ...]], list[NearlyShared]] = {}
    for near in found:
        by_reason.setdefault((near.query, near.differences), []).append(near)
    for (query, differences), steps in by_reason.items():
        lines += [f"  {near.what}   cost {number(near.cost)}" for near in steps]
        lines += [f"    as in {query}, except", *(f"      {text}" for text in differences)]
    return lines if len(lines) > 1 else []
