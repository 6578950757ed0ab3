"""`clash demo`: a web shop's joins, planned one by one and all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
WINDOW = "10 minutes"
Strategy = Literal["independent", "shared", "global"]

# name → columns, and how many tuples arrive within the window
STREAMS: dict[str, tuple[dict[str, str], float]] = {
    "clicks": ({"customer_id": "bigint", "page": "string", "ts": "timestamp"}, 30_000),
    "orders": ({"order_id": "bigint", "customer_id": "bigint", "total": "decimal(10,2)", "ts": "timestamp"}, 6_000),
    "payments": ({"order_id": "bigint", "amount": "decimal(10,2)", "ts": "timestamp"}, 6_000),
    "shipments": ({"order_id": "bigint", "shipment_id": "bigint", "warehouse": "string", "ts": "timestamp"}, 5_000),
    "scans": ({"shipment_id": "bigint", "hub": "string", "ts": "timestamp"}, 15_000),
    "tickets": ({"customer_id": "bigint", "subject": "string", "ts": "timestamp"}, 500),
}

# how likely two tuples match: 6,000 open orders, 5,000 shipments, 20,000 customers
SELECTIVITIES = {
    "orders.order_id = payments.order_id": 1 / 6_000,
    "orders.order_id = shipments.order_id": 1 / 6_000,
    "payments.order_id = shipments.order_id": 1 / 6_000,
    "shipments.shipment_id = scans.shipment_id": 1 / 5_000,
    "clicks.customer_id = orders.customer_id": 1 / 20_000,
    "tickets.customer_id = orders.customer_id": 1 / 20_000,
    "clicks.customer_id = tickets.customer_id": 1 / 20_000,
}

# name → (the question, SQL)
QUERIES: dict[str, tuple[str, str]] = {
    "fulfilment": (
        "paid and on its way?",
        "SELECT order_id, amount, warehouse\nFROM orders JOIN payments USING (order_id) JOIN shipments USING (order_id)",
    ),
    "tracking": (
        "where is what was paid for?",
        "SELECT order_id, amount, hub\n"
        "FROM orders JOIN payments USING (order_id) JOIN shipments USING (order_id)\n  JOIN scans USING (shipment_id)",
    ),
    "conversion": (
        "which pages lead to money?",
        "SELECT page, order_id, amount\nFROM clicks JOIN orders USING (customer_id) JOIN payments USING (order_id)",
    ),
    "complaints": (
        "who writes in about which delivery?",
        "SELECT subject, order_id, warehouse, hub\n"
        "FROM tickets JOIN orders USING (customer_id) JOIN shipments USING (order_id)\n  JOIN scans USING (shipment_id)",
    ),
    "refunds": (
        "who writes in about a payment?",
        "SELECT subject, order_id, amount\nFROM tickets JOIN orders USING (customer_id) JOIN payments USING (order_id)",
    ),
}

STRATEGIES: tuple[tuple[Strategy, str], ...] = (
    ("independent", "each query its own stores and orders"),
    ("shared", "each alone, equal parts run once"),
    ("global", "all planned at once"),
)


def demo(workers: Annotated[int, typer.Option(min=1, help="Workers that the stores are spread over.")] = 4) -> None:
    """Plan several overlapping joins of a web shop's streams, and show what sharing saves."""
    from rich.console import Console

    import clash

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    _show_problem(console)
    queries = {name: sql for name, (_, sql) in QUERIES.items()}
    streams = [clash.Stream.of(name, columns, time="ts", window=WINDOW) for name, (columns, _) in STREAMS.items()]
    statistics = clash.Statistics(rates={name: rate for name, (_, rate) in STREAMS.items()}, selectivities=SELECTIVITIES)
    plans = {
        strategy: clash.optimize(queries, statistics, streams=streams, workers=workers, strategy=strategy) for strategy, _ in STRATEGIES
    }
    best = plans["global"]
    console.rule("[bold]the plan", align="left", style="dim")
    typer.echo(best.explain())  # as it is: it has a layout of its own
    _show_comparison(console, {strategy: float(plan.cost) for strategy, plan in plans.items()})
    _show_closing(console, best)


def _show_problem(console: Console) -> None:
    from rich.syntax import Syntax
    from rich.table import Table

    console.print(f"[bold]A web shop asks {len(QUERIES)} questions about the same {len(STREAMS)} streams, without end.")
    console.print(
        f"Each is a join of three or four streams over the last {WINDOW}. One by one they store and"
        " probe the same tuples again and again; together, a tuple is stored once and common steps run once.\n"
    )
    console.rule("[bold]streams", align="left", style="dim")
    streams = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    streams.add_column(style="cyan", no_wrap=True)
    streams.add_column(justify="right")
    streams.add_column(style="dim")
    for name, (columns, rate) in STREAMS.items():
        streams.add_row(name, f"{rate:,.0f} tuples", ", ".join(columns))
    console.print(streams)
    console.print()

    console.rule("[bold]queries", align="left", style="dim")
    coloured = Syntax("", "sql", theme="ansi_dark", background_color="default")
    for name, (question, sql) in QUERIES.items():
        console.print(f"[bold cyan]{name}[/]  [italic]{question}")
        for line in sql.splitlines():
            console.print("  ", coloured.highlight(line), sep="", end="", soft_wrap=True)
    console.print()


def _show_comparison(console: Console, costs: dict[Strategy, float]) -> None:
    from rich.table import Table

    console.print()
    console.rule("[bold]what sharing saves", align="left", style="dim")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, width=30)
    table.add_column(style="dim")
    most, alone = max(costs.values()), costs["independent"]
    for strategy, words in STRATEGIES:
        cost = costs[strategy]
        length = max(1, round(30 * cost / most)) if most > 0 else 0
        colour = "green" if strategy == "global" else "yellow"
        table.add_row(strategy, f"{cost:,.0f}", f"[{colour}]{'█' * length}[/]", f"{_percent(cost, alone)}{words}")
    console.print(table)


def _percent(cost: float, alone: float) -> str:
    return f"{100 * cost / alone:3.0f} %  " if alone > 0 else ""


def _show_closing(console: Console, plan: Any) -> None:
    if plan.optimal:
        proof = "proven optimal"
    else:
        proof = "not proven optimal" if plan.gap is None else f"at most {100 * plan.gap:.1f} % above the optimum"
    console.print(f"\nThe global plan is {proof}; found in {plan.seconds:.2f} s.")
    console.print("[dim]Your own queries: clash explain --help")
