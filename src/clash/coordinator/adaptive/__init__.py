"""Adapting the plan to the data: statistics of each epoch, a test for drift, replanning beside the stream, and whether it paid.

May import `control` (a set-up is planned again), `planner`, `topology` (of a plan's first batch) and `statistics`. Nothing here can hold up
a batch or change a result. Start reading in `replanner`.

| module | does |
|---|---|
| `statistics_collector` | merges what tasks report into epochs, and estimates what the planner needs |
| `table_statistics` | counts the rows of reference tables |
| `drift_detector` | a cheap test whether the data has changed, so that estimating is worth its cost |
| `plan_pricing` | what a running plan would cost under other statistics |
| `transition_pricing` | what it costs to change from one plan to another |
| `stability` | for how long the data is expected to stay as it is |
| `payback` | whether a change of plan pays until then |
| `replanner` | looks for a better plan in the background, and offers it at a boundary |
| `background` | threads beside the stream |
| `offers` | the plan on offer, and how often plans may change |
| `generation_cost` | what a generation has cost, and whether a change of plan paid |
"""
