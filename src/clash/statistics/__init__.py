"""Statistics of running streams: gathered where tuples are, kept over epochs, turned into what the planner takes.

No PySpark and no files here. Workers call `Gatherer`, the driver `merge`, `History.add_epoch` and `estimate`.
"""

from clash.statistics.estimate import estimate
from clash.statistics.collected import Gathered, merge
from clash.statistics.collector import Gatherer
from clash.statistics.history import History
from clash.statistics.probe_feedback import Probed
from clash.statistics.collection_spec import Wanted, wanted

__all__ = ["Gathered", "Gatherer", "History", "Probed", "Wanted", "estimate", "merge", "wanted"]
