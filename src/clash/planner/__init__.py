"""From queries and statistics to a plan: lattice → graph → heuristic and integer program → solution → topology."""
