"""Names of stores: unique, safe as directories, and the same under every plan that has the store.

A stream's store is called after the stream, a MIR's after its streams and a digest of its whole sub-join, so a store that two
generations of plans have in common is one store to both.
"""

from __future__ import annotations

import hashlib
import json
import re

from clash.planner.orders import StoreKey
from clash.plan.json_codecs import join_to_json


def store_id(key: StoreKey) -> str:
    """The prefixes keep streams, MIRs and one query's own stores apart whatever they are called."""
    name = f"s_{key.stream}" if key.join is None else "m_" + "_".join(r.stream for r in sorted(key.join.relations))
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)[:100]
    if key.join is None and key.owner is None and safe == name:
        return safe
    told = json.dumps([key.stream, None if key.join is None else join_to_json(key.join), key.owner], sort_keys=True)
    return f"{safe}_{hashlib.sha256(told.encode()).hexdigest()[:12]}"
