"""The planner: queries and statistics → a logical plan with a proven bound on its cost.

It may import `clash.plan`, `clash.model` and `clash.errors`; not `sql`, `topology`, `explain` or anything above them. Start reading at
`optimize.py`, which lists the passes in their order.

| module | what it holds |
|---|---|
| `optimize` | `plan_queries`, the entry point; the list of passes |
| `strategies` | the strategies `independent`, `shared` and `global`: which queries are planned together |
| `search_space` | the lattice and the graph of a set of queries |
| `candidate_joins` | the sub-joins that are considered |
| `cardinalities`, `known_cardinalities` | estimated sizes of sub-joins; correction by known sizes |
| `lattice` | the connected sub-joins of all queries, interned |
| `cost_model` | the costs `probe` and `full` |
| `placements` | where rows of a partial result are, and which steps cross the network |
| `deadline` | when an answer is due, which everything that takes long looks at |
| `graph`, `build_graph` | nodes, arcs and stores, which every solver works on; how they are built |
| `solution` | one arc into every needed node: trimming, layouts, cost, rounds |
| `solve` | a search space → the cheapest plan and its bound: heuristic, then integer program |
| `components` | groups of queries that share nothing |
| `plan_state`, `journal` | a plan under construction; undoing changes to it |
| `insertion`, `heuristic` | inserting a query into a plan; the search over such plans |
| `isolated_bounds` | lower bounds on what a query costs alone |
| `large_sets`, `guidance` | large sets: relaxation and search side by side; what the relaxation suggests to the search |
| `unplaced_bound` | a bound under `full` for sets whose program is too large |
| `dual_bound` | a proven bound from any duals of a linear program |
| `compact_program`, `bound_rows` | the default integer program; rows that tighten its bound |
| `published_program` | the integer program of the paper |
| `integer_program`, `solver` | a program under construction; HiGHS, in this process or in one of its own |
| `fixed_plan` | a given plan, traced over a graph |
| `extract_orders` | a solution → probe orders and stores |
"""
