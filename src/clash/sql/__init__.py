"""From SQL, or the paper's short form, to a `clash.model.query.Query`."""

from clash.sql.parse import parse_queries, parse_query

__all__ = ["parse_queries", "parse_query"]
