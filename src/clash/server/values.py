"""Rows of results as values that JSON can hold, without loss: decimals, and integers that JavaScript would round, are texts."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

_EXACT = 2**53


def table_to_data(rows: pa.Table) -> dict[str, Any]:
    """Columns with their types, and rows as lists."""
    columns = [{"name": field.name, "type": str(field.type)} for field in rows.schema]
    values = [column.to_pylist() for column in rows.columns]
    return {"columns": columns, "rows": [[_value(cell) for cell in row] for row in zip(*values, strict=True)]}


def _value(cell: Any) -> Any:
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return cell if abs(cell) <= _EXACT else str(cell)
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else str(cell)
    if isinstance(cell, datetime | date | time):
        return cell.isoformat()
    if isinstance(cell, bytes):
        return base64.b64encode(cell).decode()
    if isinstance(cell, dict):
        return {str(name): _value(part) for name, part in cell.items()}
    if isinstance(cell, list | tuple):
        return [_value(part) for part in cell]
    return str(cell) if isinstance(cell, Decimal | timedelta) else repr(cell)
