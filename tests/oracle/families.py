"""Histories of queries that differ in constants and windows only, so that the planner may take the results of some from weaker joins."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from .case import Case
from .generate import random_case
from .histories import random_history

SIBLINGS = 0.9  # of the queries are the join of an earlier one


def family_history(rng: Random, changes: bool) -> Case:
    case = random_history(rng, siblings=SIBLINGS) if changes else random_case(rng, siblings=SIBLINGS)
    return replace(case, setting=replace(case.setting, strategy="global", cost="full"))
