"""Literals as Arrow scalars. Equal literals give equal scalars in every process."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache

import pyarrow as pa

from clash.expressions.arrow_types import arrow_type
from clash.expressions.temporal import from_local
from clash.model.expressions import Lit


def literal(lit: Lit, timezone: str) -> pa.Scalar:
    """The literal as a scalar; a timestamp without an offset is in the session's time zone."""
    return _literal(lit, repr(lit.value), timezone)


@lru_cache(maxsize=4096)
def _literal(lit: Lit, representation: str, timezone: str) -> pa.Scalar:
    """`representation` is part of the cache key only: it distinguishes 0.0 from -0.0, which are equal as keys."""
    kind = arrow_type(lit.type)
    value = lit.value
    if value is None:
        return pa.scalar(None, kind)
    if lit.type == "date":
        return pa.scalar(date.fromisoformat(str(value)), kind)
    if lit.type in ("timestamp", "timestamp_ntz"):
        moment = datetime.fromisoformat(str(value))
        if moment.tzinfo is not None:
            return pa.scalar(moment, kind)
        local = pa.array([moment], pa.timestamp("us"))
        return (from_local(local, timezone) if lit.type == "timestamp" else local)[0]
    if lit.type.startswith("decimal"):
        return pa.scalar(Decimal(str(value)), kind)
    if lit.type == "binary":
        return pa.scalar(str(value).encode(), kind)
    if lit.type in ("float", "double"):
        return pa.scalar(float(value), kind)
    return pa.scalar(value, kind)
