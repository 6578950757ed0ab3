"""Join keys as 64-bit words.

A key is compared in a Spark type to which both sides are cast first. The word of a single column is the value itself if that fits 64
bits (`exact`: equal words are equal keys). Otherwise, and for keys of several columns, the word is a hash: then rows with equal words
must be compared with `same`, column by column.

Invariant: equal keys have equal words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clash.columnar.arrow_views import booleans, fixed_width, offsets_and_bytes, validity
from clash.columnar.hashing import canonical_words, combine, hash_bytes
from clash.columnar.widening import doubles, instants, integers, short_offset_strings, unscaled
from clash.model.coercion import digits
from clash.model.types import family

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

_MAX_WORD_DIGITS = 18  # every decimal of so many digits fits a word


class Words(NamedTuple):
    """The keys of some rows."""

    words: Int64s
    """One word per row."""
    valid: Bools | None
    """Which keys contain no NULL; None if no key contains one."""
    exact: bool
    """Whether equal words mean equal keys."""


def key_words(columns: Sequence[pa.Array], types: Sequence[str], timezone: str) -> Words:
    """The words of the keys made of `columns`, which are compared as `types`; a key that contains a NULL is not valid."""
    words = column_words(columns[0], types[0], timezone)
    valid = validity(columns[0])
    for column, kind in zip(columns[1:], types[1:], strict=True):
        words = combine(words, column_words(column, kind, timezone))
        column_valid = validity(column)
        valid = column_valid if valid is None else valid if column_valid is None else valid & column_valid
    return Words(words, valid, len(columns) == 1 and _fits_word(types[0]))


def same(left: pa.Array, right: pa.Array, type: str, timezone: str) -> Bools:
    """Spark's `left = right`, row by row, for two arrays of equal length without NULLs that are compared as `type`."""
    if _fits_word(type):
        equal: Bools = column_words(left, type, timezone) == column_words(right, type, timezone)
        return equal
    if type.startswith("decimal"):
        scale = digits(type)[1]
        return cast(Bools, (unscaled(left, scale) == unscaled(right, scale)).all(axis=1))
    return booleans(pc.equal(short_offset_strings(left), short_offset_strings(right)))


def column_words(column: pa.Array, kind: str, timezone: str) -> Int64s:
    """The words of one column that is compared as `kind`; those of NULLs are arbitrary."""
    group = family(kind)
    if group == "integer":
        return integers(column)
    if group == "floating":
        return canonical_words(doubles(column))
    if group == "boolean":
        return booleans(column).astype(np.int64)
    if group == "date":
        return fixed_width(column, np.int32).astype(np.int64)
    if group in ("timestamp", "timestamp_ntz"):
        return instants(column, timezone if group == "timestamp" else None)
    if kind.startswith("decimal"):
        parts = unscaled(column, digits(kind)[1])
        low = parts[:, 0]
        return low if _fits_word(kind) else combine(low, parts[:, 1])
    return hash_bytes(*offsets_and_bytes(short_offset_strings(column)))


def _fits_word(kind: str) -> bool:
    """Whether every value of the type fits a word."""
    if kind.startswith("decimal"):
        return digits(kind)[0] <= _MAX_WORD_DIGITS
    return family(kind) not in ("string", "binary")
