"""The SQL front end: text, in SQL or in the paper's short form, to a resolved `clash.model.query.Query`.

It may import `clash.model`, `clash.errors`, `clash.hints` and sqlglot, nothing else of the project. Start with `parse`: its two lists of
passes are the architecture of this package, and every pass is one function that completes a `draft.QueryDraft`.

| module             | content                                                                                           |
|--------------------|---------------------------------------------------------------------------------------------------|
| `parse`            | the lists of passes, and the entry points that run them                                           |
| `draft`            | a query between the passes: what each pass reads and what it adds                                 |
| `syntax`           | passes: tokens, then sqlglot's syntax tree or the relations of a short form                       |
| `unsupported`      | pass: refuses clauses and expressions outside the supported subset, with what to write instead    |
| `unread`           | pass: refuses parts of the syntax tree that no pass reads                                         |
| `from_clause`      | pass: tables with their columns, USING and NATURAL, CROSS JOIN; makes one join of nested SELECTs  |
| `predicates`       | pass: equality classes, filters and residuals                                                     |
| `outer_query`      | passes: the join core of a query with aggregates, and SQL for Spark over its columns              |
| `nested_groups`    | finds the SELECT with aggregates inside of a query whose other SELECTs read its groups            |
| `window_items`     | window functions beside aggregates in one SELECT list                                             |
| `outputs`          | pass: the SELECT list                                                                             |
| `windows`          | pass: the window of each relation, from streams, arguments and hints                              |
| `time_bounds`      | pass: what the predicates imply for differences of event times                                    |
| `tables`           | tables of FROM as they are written, and common tables of WITH                                     |
| `views`            | names for SELECTs, which become common tables of the queries that use them                        |
| `join_words`       | the keywords of a join                                                                            |
| `query_source`     | the text with its tokens, and the position of a syntax node in it, for errors                     |
| `spark_parser`     | sqlglot's parser, without what it drops or prints                                                 |
| `short_form`       | the grammar of the paper's short form `R(a), S(a,b)`                                              |
| `stream_inference` | schemas of undeclared streams, from the columns that queries name                                 |
| `scope`            | the tables and columns that an expression may name, and what the names stand for                  |
| `name_lookup`      | case-insensitive lookup of names, as in Spark                                                     |
| `convert`          | one sqlglot expression to one of the model, typed                                                 |
| `computed`         | expressions over one stream that Spark computes, as columns of that stream                        |
| `functions`        | the supported operators and functions, their argument and result types, and their semantics       |
| `result_types`     | types of results, by the arguments                                                                |
| `named_functions`  | functions by Spark's own names, in terms of these                                                 |
| `time_sums`        | `+` and `-` of dates, times and intervals                                                         |
| `implicit_casts`   | casts that Spark adds                                                                             |
| `cast_types`       | the types that a CAST may name                                                                    |
| `literals`         | literals, typed as in Spark                                                                       |
| `normal_form`      | one normal form for equivalent expressions, which makes them comparable between queries           |
| `time_bands`       | the normal form of comparisons between timestamps that are offset by constants                    |
| `statistics_text`  | selectivities that users give for predicates, under the normal form of these predicates           |
"""

from clash.sql.computed import UncomputableError
from clash.sql.parse import SparkTypes, parse_queries, parse_query, parse_with_spark
from clash.sql.views import check_view, with_views
from clash.sql.windows import with_stream_windows

__all__ = [
    "SparkTypes",
    "UncomputableError",
    "check_view",
    "parse_queries",
    "parse_query",
    "parse_with_spark",
    "with_stream_windows",
    "with_views",
]
