"""Samples of a stream's tuples: the hashes of all join keys, and which predicates hold.

A sample *on* a key holds the tuples whose key hash is below `threshold`, and of those a `share`. The threshold falls first, as long as
many keys are left: few keys with all their tuples say how keys meet. Where keys are few and tuples many (a nation's customers), the
share falls. A sample on no key is a share of all tuples.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clash.statistics.kernels import ALL, Hashes, below

Bits = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class Sample:
    """`hashes` has a column per key; `seen` is the number of tuples that it was drawn from."""

    keys: tuple[str, ...]
    predicates: tuple[str, ...]
    on: str | None
    threshold: int
    share: float
    seen: float
    hashes: Hashes
    bits: Bits

    @property
    def rows(self) -> int:
        return len(self.bits)

    def own(self) -> Hashes:
        """The key that it is on."""
        found: Hashes = self.hashes[:, self.keys.index(str(self.on))]
        return found

    def take(self, rows: NDArray[Any]) -> Sample:
        return replace(self, hashes=self.hashes[rows], bits=self.bits[rows])

    def lowered(self, threshold: int) -> Sample:
        """What a lower threshold leaves."""
        if self.on is None or threshold >= self.threshold:
            return self
        return replace(self.take(below(self.own(), threshold)), threshold=threshold)

    def thinned(self, share: float) -> Sample:
        """A random part: the same one for the same sample."""
        if share >= self.share:
            return self
        kept = np.random.default_rng(self.rows).random(self.rows) < share / self.share
        return replace(self.take(kept), share=share)

    def shrunk(self, rows: int, keys: int) -> Sample:
        """At most about so many rows; the threshold falls only while more than so many keys are left."""
        found = self
        while found.rows > rows:
            distinct = 0 if found.on is None else _distinct(found.own())
            if distinct > keys:
                lower = int(found.threshold * max(rows / found.rows, keys / distinct) * 0.99)
                found = found.lowered(max(1, lower))
            else:
                return found.thinned(found.share * rows / found.rows)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "share": self.share,
            "seen": self.seen,
            "rows": self.rows,
            # hashes do not compress
            "data": base64.b64encode(self.hashes.T.tobytes() + self.bits.tobytes()).decode("ascii"),
        }

    @staticmethod
    def from_json(data: dict[str, Any], keys: tuple[str, ...], predicates: tuple[str, ...], on: str | None) -> Sample:
        rows, content = data["rows"], base64.b64decode(data["data"])
        size = 4 * rows * len(keys)
        hashes = np.frombuffer(content[:size], np.uint32).reshape(len(keys), rows).T
        return Sample(
            keys, predicates, on, data["threshold"], data["share"], data["seen"], hashes, np.frombuffer(content[size:], np.uint16)
        )


def joined(samples: list[Sample], rows: int, keys: int) -> Sample:
    """One sample of all that the samples were drawn from; the newest, which is last, says which keys and predicates are in it."""
    like = samples[-1]
    same = [s for s in samples if (s.keys, s.predicates) == (like.keys, like.predicates)]
    threshold, share = min(s.threshold for s in same), min(s.share for s in same)
    same = [s.lowered(threshold).thinned(share) for s in same]
    whole = replace(
        like,
        threshold=threshold,
        share=share,
        seen=sum(s.seen for s in same),
        hashes=np.concatenate([s.hashes for s in same]),
        bits=np.concatenate([s.bits for s in same]),
    )
    return whole.shrunk(rows, keys)


def _distinct(hashes: Hashes) -> int:
    """How many keys; `np.unique` takes several times as long for so few rows."""
    ordered = np.sort(hashes)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def empty(keys: tuple[str, ...], predicates: tuple[str, ...], on: str | None) -> Sample:
    return Sample(keys, predicates, on, ALL, 1.0, 0, np.empty((0, len(keys)), np.uint32), np.empty(0, np.uint16))


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 1)).decode("ascii")


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
