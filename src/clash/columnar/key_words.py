"""Keys as 64-bit words.

A key is compared as a Spark type, to which both of its sides are brought first. Of one column the word is the value itself
wherever that fits 64 bits (`exact`: equal words are equal keys); otherwise, and for several columns, it is a hash, and
whoever finds equal words asks `same` for every column. Equal keys always have equal words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clash.columnar.hashing import canonical, combine, hash_text
from clash.columnar.arrow_views import text, truths, validity, values
from clash.columnar.widening import doubles, instants, integers, texts, unscaled
from clash.model.types import family
from clash.model.coercion import digits

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_WORD_DIGITS = 18  # a decimal of so many digits fits a word


class Words(NamedTuple):
    words: Int64s
    valid: Bools | None
    exact: bool


def key_words(columns: Sequence[pa.Array], types: Sequence[str], timezone: str) -> Words:
    """One word for each row of the key made of `columns`, compared as `types`; a key with a NULL in it is not valid."""
    words = column_words(columns[0], types[0], timezone)
    valid = validity(columns[0])
    for column, kind in zip(columns[1:], types[1:], strict=True):
        words = combine(words, column_words(column, kind, timezone))
        also = validity(column)
        valid = also if valid is None else valid if also is None else valid & also
    return Words(words, valid, len(columns) == 1 and _fits_word(types[0]))


def same(left: pa.Array, right: pa.Array, type: str, timezone: str) -> Bools:
    """Spark's `left = right` for two aligned arrays without NULLs, compared as `type`."""
    if _fits_word(type):
        equal: Bools = column_words(left, type, timezone) == column_words(right, type, timezone)
        return equal
    if type.startswith("decimal"):
        scale = digits(type)[1]
        return cast(Bools, (unscaled(left, scale) == unscaled(right, scale)).all(axis=1))
    return truths(pc.equal(texts(left), texts(right)))


def column_words(column: pa.Array, kind: str, timezone: str) -> Int64s:
    """The words of one column compared as `kind`; those of NULLs are arbitrary."""
    group = family(kind)
    if group == "integer":
        return integers(column)
    if group == "floating":
        return canonical(doubles(column))
    if group == "boolean":
        return truths(column).astype(np.int64)
    if group == "date":
        return values(column, np.int32).astype(np.int64)
    if group in ("timestamp", "timestamp_ntz"):
        return instants(column, timezone if group == "timestamp" else None)
    if kind.startswith("decimal"):
        parts = unscaled(column, digits(kind)[1])
        low = parts[:, 0]
        return low if _fits_word(kind) else combine(low, parts[:, 1])
    return hash_text(*text(texts(column)))


def _fits_word(kind: str) -> bool:
    if kind.startswith("decimal"):
        return digits(kind)[0] <= _WORD_DIGITS
    return family(kind) not in ("string", "binary")
