"""Statistics of running streams: collected by the tasks that read the tuples, retained over epochs, and turned into what the planner takes.

The package may import `codec`, `errors`, `model`, `plan`, `columnar` and `expressions`; it does no input or output. Ingest tasks call
`Collector`; the coordinator calls `merge` on what tasks report, `StatisticsHistory.add_epoch` at the end of an epoch, and `estimate` before
it plans. Start reading at `collected` (what is counted) and `estimate` (what comes out); docs/statistics.md has the mathematics.

| module | what it holds |
|---|---|
| (`plan.collection_spec`) | which keys and predicates are collected, as a function of the queries |
| `collector` | collects histograms, predicate counts and samples in a task |
| `kernels` | compiled loops that hash keys, fill histograms and choose sampled rows |
| `sample` | sampled tuples: hashes of their keys and the predicates that they pass |
| `table_counts` | what is counted of the rows of a reference table |
| `time_spans` | where tuples lie in event time |
| `collected` | what one or more tasks have collected, and how it adds up |
| `history` | what was collected over the epochs that windows reach back to |
| `probe_feedback` | result counts of the probes that the engine has run |
| `epoch_drift` | how the newest epoch differs from the window, per pair of compared columns |
| `stream_view` | one stream over several epochs, as the estimators read it |
| `key_pairs` | size of the join of two keys, from two histograms |
| `join_shape` | a sub-join as the estimators read it |
| `sample_join` | exact join of the samples of one equality class |
| `join_sizes` | size of a sub-join, from histograms and samples |
| `estimate` | history and queries → `clash.model.statistics.Statistics` |
"""

from clash.plan.collection_spec import CollectionSpec, build_collection_spec
from clash.statistics.collected import Collected, merge
from clash.statistics.collector import Collector
from clash.statistics.estimate import estimate
from clash.statistics.history import StatisticsHistory
from clash.statistics.probe_feedback import ProbeStep

__all__ = ["Collected", "CollectionSpec", "Collector", "ProbeStep", "StatisticsHistory", "build_collection_spec", "estimate", "merge"]
