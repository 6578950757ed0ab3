"""The keys of a job file as tables of Markdown, for docs/job-file.md: `python -m clash.job.reference` writes them into the page."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from clash.job import model

BEGIN, END = "<!-- REFERENCE: written by python -m clash.job.reference -->", "<!-- END REFERENCE -->"
_SECTIONS: tuple[tuple[str, type[model.Section]], ...] = (
    ("The file", model.Job),
    ("A stream that Spark reads", model.SparkStream),
    ("A stream of Kafka: `format: kafka`", model.KafkaStream),
    ("A table", model.Table),
    ("A query", model.Query),
    ("A sink", model.Sink),
    ("`parquet`", model.ParquetSink),
    ("`kafka`", model.KafkaSink),
    ("`postgres`", model.PostgresSink),
    ("`console`", model.ConsoleSink),
    ("The section `engine`", model.Engine),
    ("The section `spark`", model.Spark),
    ("The section `kafka`", model.Kafka),
    ("The section `postgres`", model.Postgres),
)
_NAMES = {str: "text", int: "number", float: "number", bool: "true or false", type(None): ""}


def reference() -> str:
    return "\n".join(line for title, section in _SECTIONS for line in _table(title, section))


def with_reference(page: str) -> str:
    """The page with the reference of now between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def _table(title: str, section: type[model.Section]) -> Iterator[str]:
    yield from (f"### {title}", "", str(section.__doc__).strip().splitlines()[0], "")
    yield from ("| key | value | unless it is given | |", "|---|---|---|---|")
    for name, field in section.model_fields.items():
        description = (field.description or "").replace("|", "\\|")
        yield f"| `{field.alias or name}` | {_kind(field.annotation)} | {_default(field)} | {description} |"
    yield ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    value = field.default
    if value is None or value == {} or isinstance(value, model.Section):
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _kind(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kind(get_args(annotation)[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        kinds = dict.fromkeys(_kind(part) for part in get_args(annotation))
        return " or ".join(kind for kind in kinds if kind)
    if origin is dict:
        values = _kind(get_args(annotation)[1])
        return "a table of values" if values.startswith("text or") else f"a table of {values}"
    if isinstance(annotation, type) and issubclass(annotation, model.Section):
        return "a table"
    return _NAMES.get(annotation, str(annotation))


def main() -> None:
    path = Path(__file__).parents[3] / "docs" / "job-file.md"
    path.write_text(with_reference(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
