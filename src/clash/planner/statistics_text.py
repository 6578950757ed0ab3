"""Selectivities of filters and residuals, as users write them, brought into the normal form that queries are in.

`"payments.amount > 500"` must be found whether a query writes it so, the other way round, or with another alias. What is in
normal form already, as in the statistics of a run, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from clash.errors import OptionError, QueryError
from clash.model.statistics import Statistics, is_equality
from clash.model.stream import Stream
from clash.sql import parse_query
from clash.sql.functions import FUNCTIONS

_NORMAL = re.compile(r"([^\s(]+)\(.*\)", re.DOTALL)
_STREAM = re.compile(r"([A-Za-z_]\w*)\s*\.\s*[A-Za-z_`]")


def normal_statistics(statistics: Statistics, streams: Mapping[str, Stream]) -> Statistics:
    """The same numbers, each filter and residual under the text of its normal form; what is of other streams stays as it is."""
    selectivities = {_known(text, streams): share for text, share in statistics.selectivities.items()}
    sizes = {tuple(_known(part, streams) for part in key): size for key, size in statistics.sizes.items()}
    return replace(statistics, selectivities=selectivities, sizes=sizes)


def _known(text: str, streams: Mapping[str, Stream]) -> str:
    names = list(dict.fromkeys(_STREAM.findall(text)))
    if is_equality(text) or not names or any(name not in streams for name in names):
        return text
    normal = _NORMAL.fullmatch(text)
    return text if normal and normal[1] in FUNCTIONS else _normal(text, names, streams)


def _normal(text: str, names: list[str], streams: Mapping[str, Stream]) -> str:
    hint = 'write one predicate over streams, such as "payments.amount > 500"'
    try:
        join = parse_query("statistics", f"SELECT * FROM {' CROSS JOIN '.join(names)} WHERE {text}", streams).join
    except QueryError as error:
        raise OptionError("cannot read the predicate of a selectivity", f"{text!r}: {error.what}", hint) from None
    predicates = [*join.filters, *join.residuals]
    if len(predicates) != 1 or join.classes:
        raise OptionError("a selectivity is of one predicate", repr(text), hint)
    return str(predicates[0])
