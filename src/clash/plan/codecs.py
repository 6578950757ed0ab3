"""How plans are written: in the checkpoint, where they are compact, and for users, where they are readable.

Sub-joins, queries and streams are written once per document, because orders, edges and rules mention the same ones over and over.
"""

from __future__ import annotations

import json
from typing import Any

from clash.codec import Codec
from clash.errors import OptionError
from clash.model.query import Query, SubJoin
from clash.model.stream import Stream
from clash.plan.physical import PhysicalPlan
from clash.plan.topology import Topology

SHARED = (SubJoin, Query, Stream)
FORMAT, VERSION = "clash topology", 3

PHYSICAL_PLAN: Codec[PhysicalPlan] = Codec(PhysicalPlan, SHARED, compact=True)
_TOPOLOGY: Codec[Topology] = Codec(Topology, SHARED)


def topology_to_data(topology: Topology) -> dict[str, Any]:
    """A topology as JSON data with named fields."""
    return {"format": FORMAT, "version": VERSION, **_TOPOLOGY.encode(topology)}


def topology_to_json(topology: Topology) -> str:
    return json.dumps(topology_to_data(topology), ensure_ascii=False)


def topology_from_json(text: str) -> Topology:
    try:
        data = json.loads(text)
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise OptionError("a topology of another version", f"{data['format']} {data['version']}", f"this is {FORMAT} {VERSION}")
        return _TOPOLOGY.decode(data)
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError("not a topology", f"{type(error).__name__}: {error}", "give text written by topology_to_json") from None
