"""What a plan runs as: stores, edges and rules, as plain frozen data."""

from clash.topology.build import build
from clash.plan.topology import Topology
from clash.plan.errors import PlanError
from clash.plan.topology_json import from_json, to_json
from clash.plan.validate import validate

__all__ = ["PlanError", "Topology", "build", "from_json", "to_json", "validate"]
