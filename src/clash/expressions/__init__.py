"""Evaluation of expressions over Arrow arrays, with the results and errors of Spark 4 in ANSI mode.

It may import `model` and `errors` only. Start reading at `evaluate`: it walks an expression and looks up one kernel per operator in the
`KERNELS` tables of the modules below it.

| module | contents |
|---|---|
| `evaluate` | `evaluate` and `holds`: walks expressions, restricts what can raise to the rows that Spark would evaluate |
| `values` | the representation of an expression's value, and helpers for Arrow arrays, scalars and numpy |
| `literals` | literals as Arrow scalars |
| `arrow_types` | `arrow_type`: Spark type names as Arrow types |
| `compare` | comparisons, IN, GREATEST and LEAST, IS NULL, NOT |
| `arithmetic` | + - * / %, negation, ABS, ROUND, FLOOR, CEIL |
| `numeric` | DIV, PMOD, SQRT, EXP, logarithms, POWER, SIGN, bits, NaN |
| `strict_math` | EXP, LN, LOG10 and POWER with the digits of Java's StrictMath |
| `decimals` | decimal arithmetic with Spark's rounding |
| `doubles` | rounding of doubles by their shortest decimal representation |
| `cast` | CAST and implicit widening |
| `text_to_value`, `text_to_time` | casts from strings |
| `value_to_text` | casts to strings |
| `text` | string functions and LIKE |
| `text_functions` | TRIM, REPLACE, LPAD, SPLIT_PART and others with literal patterns |
| `temporal` | time zones, casts between date and time types, parts of dates and times |
| `nested` | fields of structs |
| `calendar` | days and months added, truncation, other parts of dates, seconds since 1970 |
"""

from clash.expressions.arrow_types import arrow_type
from clash.expressions.evaluate import evaluate, holds

__all__ = ["arrow_type", "evaluate", "holds"]
