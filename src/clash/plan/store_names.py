"""The ids of stores: unique, safe as directories, and the same under every plan that has the store.

The store of a stream is named after the stream, an intermediate store after its streams and a digest of its whole sub-join, so a store that
two generations have in common is one store to both.
"""

from __future__ import annotations

import hashlib
import json
import re

from clash.model.canonical_text import sub_join_key
from clash.plan.logical import StoreKey


def store_id(key: StoreKey) -> str:
    """The prefixes keep streams, intermediate results and the stores of single queries apart, however they are named."""
    name = f"s_{key.stream}" if key.join is None else "m_" + "_".join(r.stream for r in sorted(key.join.relations))
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)[:100]
    if key.join is None and key.owner is None and safe == name:
        return safe
    identity = json.dumps([key.stream, None if key.join is None else sub_join_key(key.join), key.owner])
    return f"{safe}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
