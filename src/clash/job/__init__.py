"""Job files: a job as YAML instead of a program. What a file says becomes the same calls of `clash.Engine` that a program makes.

May import `clash.spark` and below. Start reading in `model` (what a file may say) and `load` (a file, read and checked).

| module | what it holds |
|---|---|
| `model` | the keys of a job file, with their types: the reference and the JSON schema are made from it |
| `yaml_text` | YAML as plain data, with the line of every key |
| `variables` | `${NAME}`: values of the environment, which are never shown |
| `load` | a job file: read, checked, with errors that name file, line and key |
| `sinks` | sinks as files and requests write them |
| `declared` | streams and queries of a file as the planner takes them, without Spark |
| `build` | an engine of a file, in a Spark session |
| `difference` | a file against the checkpoint of its job: what a start would change, and what that costs |
| `reference` | the keys as a page of the documentation |
"""
