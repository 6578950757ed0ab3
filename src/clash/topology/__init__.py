"""What a plan runs as: stores, edges and rules, as plain frozen data."""

from clash.topology.build import build
from clash.topology.data import Topology
from clash.topology.errors import PlanError
from clash.topology.serialise import from_json, to_json
from clash.topology.validate import validate

__all__ = ["PlanError", "Topology", "build", "from_json", "to_json", "validate"]
