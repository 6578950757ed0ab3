"""A job file: read, with variables replaced, and checked. Every error names the file, the line and the key, and no value of a variable."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clash.errors import ClashError, OptionError
from clash.hints import did_you_mean, listed
from clash.job import model
from clash.job.sinks import FUNCTIONS, resolve_from
from clash.job.variables import Variables
from clash.job.yaml_text import Document, parse_yaml
from clash.job.yaml_text import Path as Place

SUFFIXES = (".yaml", ".yml")
_LOCATION = re.compile(r"query (\w+), line (\d+), column (\d+)")
_KINDS = {
    "string_type": "the value is not a text",
    "int_type": "the value is not a whole number",
    "int_from_float": "the value is not a whole number",
    "float_type": "the value is not a number",
    "bool_type": "the value is neither true nor false",
    "dict_type": "the value is not a table",
    "model_type": "the value is not a table",
    "model_attributes_type": "the value is not a table",
}
_SHOWN = {  # keys of streams, tables and queries that are recorded and shown with the plan
    "streams": ("schema", "time", "window", "lateness", "idle", "keep"),
    "tables": ("schema",),
    "queries": ("sql", "windows", "mode"),
}
_OF_TEXTS = ("literal_error", "string_type")  # what is wrong with a value that is no text
_MODELS: dict[tuple[str, ...], type[model.Section]] = {
    (): model.Job,
    ("kafka",): model.Kafka,
    ("postgres",): model.Postgres,
    ("engine",): model.Engine,
    ("spark",): model.Spark,
    ("tables", "*"): model.Table,
    ("queries", "*"): model.Query,
    ("queries", "*", "sink"): model.Sink,
    ("queries", "*", "sink", "parquet"): model.ParquetSink,
    ("queries", "*", "sink", "kafka"): model.KafkaSink,
    ("queries", "*", "sink", "postgres"): model.PostgresSink,
    ("queries", "*", "sink", "console"): model.ConsoleSink,
    ("queries", "*", "sink", "memory"): model.MemorySink,
}


@dataclass(frozen=True)
class JobFile:
    """A job file that has the right shape."""

    path: Path
    job: model.Job
    document: Document
    variables: Variables

    @property
    def folder(self) -> Path:
        return self.path.parent.absolute()

    def resolve(self, path: str) -> str:
        """A path of the file: relative ones count from its folder."""
        return resolve_from(self.folder)(path)

    @property
    def checkpoint(self) -> str:
        return self.resolve(self.job.checkpoint)

    def place(self, *keys: str | int) -> str:
        return _place(self.path, self.document, keys)

    @contextmanager
    def at(self, *keys: str | int) -> Iterator[None]:
        """What goes wrong inside names this place of the file, and hides variables."""
        try:
            yield
        except ClashError as error:
            raise self.located(error, *keys) from None

    def located(self, error: ClashError, *keys: str | int) -> ClashError:
        """The error with its place, and without values of variables."""
        made, in_query = self.hidden(error), _LOCATION.search(error.detail)
        if in_query is not None and in_query[1] in self.job.queries:
            before, after = error.detail[: in_query.start()], error.detail[in_query.end() :]
            where = self._query_place(in_query[1], int(in_query[2]), int(in_query[3]))
            made.detail = f"{self.variables.hide(before)}{where}{self.variables.hide(after)}"
        elif keys:
            made.detail = f"{self.place(*keys)}: {made.detail}" if made.detail else self.place(*keys)
        return made

    def hidden(self, error: ClashError) -> ClashError:
        """The error without values of variables."""
        hide, made = self.variables.hide, error.__class__.__new__(error.__class__)  # subclasses are made of other things than their parts
        made.__dict__.update(error.__dict__)
        made.what, made.detail, made.hint = hide(error.what), hide(error.detail), hide(error.hint)
        made.args = (made.what, made.detail, made.hint)
        return made

    def _query_place(self, name: str, line: int, column: int) -> str:
        file = self.job.queries[name].file
        if file is not None:
            return f"{self.variables.hide(file)}, query {name}, line {line}, column {column}"
        key = ("queries", name, "sql")
        start = self.document.starts.get(key)
        if start is None:
            return self.place(*key)
        first_line, first_column, is_block = start
        column += first_column - 1 if line == 1 or is_block else 0
        return f"{self.path}, query {name}, line {first_line + line - 1}, column {column}"

    def query_text(self, name: str) -> str:
        """The SQL of a query, from the file that it names or from the job file itself."""
        query = self.job.queries[name]
        with self.at("queries", name):
            if (query.sql is None) == (query.file is None):
                what = "a query has two texts" if query.sql is not None else "a query without a text"
                raise OptionError(what, "", "write either sql or file")
            if query.sql is not None:
                return query.sql.strip().removesuffix(";")
            path = Path(self.resolve(str(query.file)))
            try:
                return path.read_text(encoding="utf-8").strip().removesuffix(";")
            except (OSError, UnicodeDecodeError) as error:
                reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text in UTF-8"
                raise OptionError("the file of a query cannot be read", f"{query.file}: {reason}", "name a file with SQL") from None

    @property
    def windows(self) -> dict[str, dict[str, str]]:
        return {name: query.windows for name, query in self.job.queries.items() if query.windows}


def is_job_file(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def load_job(path: Path, environment: Mapping[str, str] | None = None) -> JobFile:
    """Reads a job file and checks its shape. `environment`: of variables; that of the process unless it is given."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise OptionError("the job file cannot be read", f"{path}: {reason}", "`clash init DIR` writes one to begin with") from None
    return parse_job(text, path, environment)


def parse_job(text: str, path: Path, environment: Mapping[str, str] | None = None) -> JobFile:
    variables = Variables(os.environ if environment is None else environment)
    document = parse_yaml(text, str(path), variables.replace)
    if not isinstance(document.data, dict):
        raise OptionError("the file is not a job", str(path), "write keys such as name, checkpoint, streams and queries")
    _refuse_shown_variables(document, path)
    data = {key: value for key, value in document.data.items() if not key.startswith("x-")}
    try:
        job = model.Job.model_validate(data)
    except ValidationError as error:
        raise _shape_error(error, path, document, data, variables) from None
    file = JobFile(path, job, document, variables)
    for section in ("streams", "queries"):
        if not getattr(job, section):
            raise OptionError(f"the job has no {section}", file.place(section), f"add one to {section}")
    return file


def _refuse_shown_variables(document: Document, path: Path) -> None:
    """What is recorded in the checkpoint and shown by every view of the plan is no place for what must not be shown."""
    for keys in sorted(document.references, key=lambda keys: (document.line(keys), str(keys))):
        if keys == ("name",) or (len(keys) > 2 and keys[2] in _SHOWN.get(str(keys[0]), ())):
            hint = "write the text itself: it is recorded in the checkpoint, and shown with the plan"
            raise OptionError("this key cannot have a variable", _place(path, document, keys), hint)


def _place(path: Path, document: Document, keys: tuple[str | int, ...]) -> str:
    return ", ".join([str(path), f"line {document.line(keys)}", *([".".join(map(str, keys))] if keys else [])])


# ---- shapes --------------------------------------------------------------------------------------------------------


def _shape_error(error: ValidationError, path: Path, document: Document, data: Any, variables: Variables) -> OptionError:
    """The first problem in three parts; how many more there are is said."""
    items = [(_keys_in(data, item["loc"], item["type"]), item) for item in error.errors(include_url=False)]
    # a key that takes a text or a table has a problem for each: the one of its own kind counts
    fitting = [(keys, item) for keys, item in items if not (isinstance(item["input"], dict) and item["type"] in _OF_TEXTS)] or items
    by_keys = dict(reversed(fitting))
    keys = min(by_keys, key=lambda keys: (by_keys[keys]["type"] == "missing", document.line(keys)))
    item = by_keys[keys]
    what, shown, hint = _explain(item, keys, data, hide_value=any(ref[: len(keys)] == keys for ref in document.references))
    detail = _place(path, document, keys) + (f": {variables.hide(shown)}" if shown else "")
    more = len(by_keys) - 1
    hint = f"{hint}; {more} more {'problem' if more == 1 else 'problems'} in the file" if more else hint
    return OptionError(variables.hide(what), detail, variables.hide(hint))


def _keys_in(data: Any, location: tuple[int | str, ...], kind: str) -> Place:
    """The keys of the file among the parts of a location, which also names the alternatives of the model."""
    keys: list[str | int] = []
    for at, part in enumerate(location):
        is_last = at == len(location) - 1
        if isinstance(data, dict) and part in data:
            data = data[part]
            keys.append(part)
        elif is_last and kind == "missing":
            keys.append(part)
    return tuple(keys)


def _explain(item: Any, keys: Place, data: Any, hide_value: bool) -> tuple[str, str, str]:
    kind, name = item["type"], str(keys[-1]) if keys else ""
    fields = _fields(keys[:-1], data)
    shown = "" if hide_value or isinstance(item["input"], dict | list) else repr(item["input"])
    if kind == "extra_forbidden":
        if keys[-2:-1] == ("sink",) and name.lower() in FUNCTIONS:
            hint = "write a program with clash.Engine and clash.sinks.ForeachBatch; docs/sinks.md has an example"
            return "a function that takes results needs Python", "", hint
        return "unknown key", "", did_you_mean(name, fields, f"keys are {listed(fields, 30)}")
    if kind == "missing":
        description = fields.get(name)
        return "a key is missing", "", f"add {name}" + (f": {description}" if description else "")
    if kind == "literal_error":
        return f"not a value of {name}", shown, f"write {item['ctx']['expected']}"
    message = str(item["msg"]).replace("Input should", "it should")
    description = fields.get(name, "")
    return _KINDS.get(kind, f"{message[:1].lower()}{message[1:]}"), shown, description or "`clash schema` prints what a job file may say"


def _fields(keys: Place, data: Any) -> dict[str, str]:
    """The keys that are possible at a place, with their descriptions."""
    pattern = tuple("*" if at == 1 and keys[0] in ("streams", "tables", "queries") else str(key) for at, key in enumerate(keys))
    section: type[model.Section] | None = _MODELS.get(pattern)
    if pattern == ("streams", "*"):
        stream = data["streams"].get(keys[1])
        is_kafka = isinstance(stream, dict) and stream.get("format") == model.KAFKA
        section = model.KafkaStream if is_kafka else model.SparkStream
    if section is None:
        return {}
    return {field.alias or name: field.description or "" for name, field in section.model_fields.items()}
