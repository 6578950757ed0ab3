"""The face of a run: a live page, a control API and metrics, served by the process of the run itself.

Knows a run by its public names, and never imports PySpark; sinks are written as in job files. Start reading in `serve` (a server beside a
run) and `app` (its routes).

| module | what it holds |
|---|---|
| `serve` | `serve(run)`: the server, in a thread of its own |
| `connection`, `context` | how commands find a run; what a server knows of its job |
| `app` | the application: static files, `/healthz`, and what every request passes |
| `access` | who may ask: token, cookie, `Host` and `Origin` |
| `limits` | how much may be asked: bodies, rate, slow clients |
| `problems` | errors as problem documents |
| `routes` | `/api`: what is read and what is changed |
| `threads`, `patience` | threads for calls of the run; clients that are slow |
| `given_sinks` | sinks that requests may name |
| `bodies`, `values` | what requests bring; rows of results as JSON |
| `openapi`, `schemas` | the API described for programs, and what it answers |
| `metrics` | `/metrics` for Prometheus |
| `events` | `/api/events`: snapshots as server-sent events |
| `snapshot` | a run as plain data that JSON can hold |
| `latency` | how long rows wait for their results |
| `static` | the page: plain modules, without a build step |
"""
