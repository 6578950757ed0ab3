"""Fields of structs."""

from __future__ import annotations

import pyarrow.compute as pc

from clash.expressions.arrow_types import arrow_type
from clash.expressions.values import Value
from clash.model.expressions import Call, Lit


def _field(call: Call, args: list[Value], timezone: str) -> Value:
    """NULL where the struct is."""
    found = pc.struct_field(args[0], str(call.args[1].value) if isinstance(call.args[1], Lit) else "")
    kind = arrow_type(call.type)
    return found if found.type == kind else found.cast(kind)


KERNELS = {"field": _field}
