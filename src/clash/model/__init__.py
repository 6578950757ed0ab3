"""The vocabulary that every other package shares: streams, relations, expressions, queries, types and statistics as frozen data.

It imports nothing of the project but `errors` and `codec`. Start with `query`: a `Query` and its `SubJoin` are what the planner works on.

| module            | content                                                                                       |
|-------------------|-----------------------------------------------------------------------------------------------|
| `stream`          | a declared stream: name, typed columns, time column, window, lateness, idle time              |
| `relation`        | a relation (an alias of a stream, numbered) and an attribute of it                            |
| `expressions`     | scalar expressions: columns, literals, calls                                                  |
| `canonical_text`  | one text for equal expressions and sub-joins, to sort by and to derive names from               |
| `expression_text` | an expression as SQL text, for people                                                         |
| `query`           | a query, its sub-joins, and how far apart in event time the parts of a result can be          |
| `block_columns`   | the names of the columns that blocks and containers carry                                     |
| `layout`          | how the rows of a store are partitioned over the workers                                      |
| `statistics`      | rates, selectivities and known join sizes, checked, and as a JSON file                        |
| `types`           | Spark's type names: one spelling, families of exactly comparable types, which types may join  |
| `coercion`        | Spark's result types of operators, and which casts exist                                      |
| `durations`       | durations as users write them, in microseconds                                                |
| `topic_name`      | the names that Kafka's topics may have                                                        |
"""
