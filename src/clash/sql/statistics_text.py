"""Selectivities that users give for filters and residuals, under the normal form of these predicates.

`"payments.amount > 500"` must apply whether a query writes it this way, the other way round, or with another alias. Texts that are already
in normal form, as in the statistics of a run, stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from clash.errors import OptionError, QueryError
from clash.model.computed import with_computed_as_columns
from clash.model.statistics import Statistics, is_equality
from clash.model.stream import Stream
from clash.sql.functions import FUNCTIONS
from clash.sql.parse import parse_query

_CALL = re.compile(r"([^\s(]+)\(.*\)", re.DOTALL)  # the normal form as text: operator(arguments)
_STREAM = re.compile(r"([A-Za-z_]\w*)\s*\.\s*[A-Za-z_`]")


def normal_statistics(statistics: Statistics, streams: Mapping[str, Stream]) -> Statistics:
    """The same numbers, with each filter and residual under its normal form; predicates on other streams stay as they are."""
    streams = {name: with_computed_as_columns(stream) for name, stream in streams.items()}
    selectivities = {_normal_text(text, streams): share for text, share in statistics.selectivities.items()}
    sizes = {tuple(_normal_text(part, streams) for part in key): size for key, size in statistics.sizes.items()}
    return replace(statistics, selectivities=selectivities, sizes=sizes)


def _normal_text(text: str, streams: Mapping[str, Stream]) -> str:
    names = list(dict.fromkeys(_STREAM.findall(text)))
    if is_equality(text) or not names or any(name not in streams for name in names):
        return text
    call = _CALL.fullmatch(text)
    is_column = any(text == f"{name}.{column}" for name in names for column, _ in streams[name].columns)
    return text if is_column or (call and call[1] in FUNCTIONS) else _normalise(text, names, streams)


def _normalise(text: str, names: list[str], streams: Mapping[str, Stream]) -> str:
    """The normal form of a predicate, parsed as the WHERE clause of a query over the streams that it names."""
    hint = 'write one predicate over streams, such as "payments.amount > 500"'
    try:
        join = parse_query("statistics", f"SELECT * FROM {' CROSS JOIN '.join(names)} WHERE {text}", streams).join
    except QueryError as error:
        raise OptionError("cannot read the predicate of a selectivity", f"{text!r}: {error.what}", hint) from None
    predicates = [*join.filters, *join.residuals]
    if len(predicates) != 1 or join.classes:
        raise OptionError("a selectivity is of one predicate", repr(text), hint)
    return str(predicates[0])
