"""Logical and physical plans as frozen data: their fields, how they are written as JSON, and what makes them valid.

May import `model`, `codec` and `errors` only, so that `planner`, `topology`, `explain`, `statistics`, `workers` and `coordinator` can
share it without knowing each other. Start reading at `logical.py`, then `topology.py`.

| module | what it holds |
|---|---|
| `logical` | `LogicalPlan`: probe orders and stores, written by the planner |
| `topology` | `Topology`: stores, edges and rules, written by `clash.topology` |
| `physical` | `PhysicalPlan`: a topology and everything that a task needs in order to run it |
| `visibility` | `VisibilityBounds`: which stored rows of earlier batches the steps may see |
| `collection_spec` | `CollectionSpec`: which statistics are collected |
| `codecs` | how plans are written as JSON |
| `store_names` | the ids of stores |
| `options` | the options of planning, and their validation |
| `validate_plan`, `validate_topology` | what makes a logical plan and a topology valid |
| `errors` | `PlanError` |
"""
