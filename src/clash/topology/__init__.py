"""From a logical plan to a topology."""
