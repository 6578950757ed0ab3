"""`clash demo`: five joins over the streams of a web shop, planned together, run on local Spark while data arrives, and checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from clash.errors import ClashError, OptionError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from clash.optimizer import Plan
    from clash.topology.trees import Node

WIDTH = 100
WINDOW = "10 minutes"
MINUTES, HELD_MINUTES = 50, 240
FOLLOWED = "orders"  # the stream whose probe tree is shown

# name → columns, and the number of tuples that arrive within the window
STREAMS: dict[str, tuple[dict[str, str], float]] = {
    "clicks": ({"customer_id": "bigint", "page": "string", "ts": "timestamp"}, 30_000),
    "orders": ({"order_id": "bigint", "customer_id": "bigint", "total": "decimal(10,2)", "ts": "timestamp"}, 6_000),
    "payments": ({"order_id": "bigint", "amount": "decimal(10,2)", "ts": "timestamp"}, 6_000),
    "shipments": ({"order_id": "bigint", "shipment_id": "bigint", "warehouse": "string", "ts": "timestamp"}, 5_000),
    "scans": ({"shipment_id": "bigint", "hub": "string", "ts": "timestamp"}, 15_000),
    "tickets": ({"customer_id": "bigint", "subject": "string", "ts": "timestamp"}, 500),
}

# 1 / the number of distinct keys: 6,000 open orders, 5,000 shipments, 20,000 customers
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

# one more query, whose cost beside the others is estimated with `Plan.what_if`, and which is added while the others run
ADDITIONAL_NAME = "browsing"
ADDITIONAL_QUERY = (
    "who clicked around before writing in?",
    "SELECT page, subject, order_id\nFROM tickets JOIN orders USING (customer_id) JOIN clicks USING (customer_id)",
)


def demo(
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers that the stores are partitioned over.")] = 4,
    minutes: Annotated[
        int | None,
        typer.Option(min=1, max=1000, show_default="50, with --hold 240", help="Minutes of the shop's time; a minute takes 0.6 seconds."),
    ] = None,
    ui: Annotated[
        str | None,
        typer.Option("--ui", metavar="HOST:PORT", help="Where the page listens.", show_default="127.0.0.1:4242 or the next free"),
    ] = None,
    no_ui: Annotated[bool, typer.Option("--no-ui", metavar="", help="No page.")] = False,
    hold: Annotated[bool, typer.Option("--hold", metavar="", help="Longer data, and keep the page open at the end, until Ctrl-C.")] = False,
) -> None:
    """Run five joins over a web shop's streams on local Spark: planned together, shown live on a page, and checked against DuckDB.

    One more query is added while the others run, and the data changes so much that the plan adapts."""
    from rich.console import Console

    import clash

    try:
        from clash.cli.demo_data import Surge
        from clash.cli.demo_run import Shop, run_shop
    except ModuleNotFoundError as error:
        raise ClashError("a package is missing", error.name or "a module", "pip install 'clash-on-spark[bench]'") from None
    if no_ui and (ui is not None or hold):
        raise OptionError("--no-ui excludes the options of the page", "--ui or --hold", "leave one of them out")

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    length = minutes or (HELD_MINUTES if hold else MINUTES)
    shop = Shop(
        streams=tuple(clash.Stream.of(name, columns, time="ts", window=WINDOW) for name, (columns, _) in STREAMS.items()),
        statistics=clash.Statistics(rates={name: rate for name, (_, rate) in STREAMS.items()}, selectivities=SELECTIVITIES),
        questions={name: question for name, (question, _) in {**QUERIES, ADDITIONAL_NAME: ADDITIONAL_QUERY}.items()},
        queries={name: sql for name, (_, sql) in QUERIES.items()},
        window=WINDOW,
        minutes=length,
        workers=workers,
        added=(ADDITIONAL_NAME, ADDITIONAL_QUERY[1]),
        surge=Surge(round(length * 0.4), 40),
    )
    _show_problem(console)
    # time_limit=0 is the heuristic alone: the plan that the engine itself starts with
    plan = clash.optimize(shop.queries, shop.statistics, streams=shop.streams, workers=workers, time_limit=0)
    _show_tuple(console, plan)
    _show_saving(console, plan)
    _title(console, f"{length} minutes of the shop, on Spark on this machine")
    with run_shop(console, shop, ui, has_page=not no_ui) as (results, url):
        console.print(
            f"[bold green]Checked:[/] all {sum(results.values()):,} results of {len(results)} queries equal"
            " those of DuckDB's batch joins over the same files."
        )
        if hold:
            _hold(console, url)


def _hold(console: Console, url: str | None) -> None:
    console.print(f"The page stays open until Ctrl-C: [cyan]{url}", soft_wrap=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        console.print()


def _title(console: Console, text: str) -> None:
    console.print()
    console.rule(f"[bold]{text}", align="left", style="dim")


def _show_problem(console: Console) -> None:
    from rich.table import Table

    console.print(f"[bold]A web shop runs {len(QUERIES)} continuous queries over the same {len(STREAMS)} streams.")
    console.print(
        f"Each query joins three or four streams over the last {WINDOW}. Run as separate jobs, the queries store and probe the same"
        " tuples several times. Planned together, a tuple is stored once, and steps that queries share run once."
    )
    _title(console, f"streams, and tuples in {WINDOW}")
    streams = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    streams.add_column(style="cyan", no_wrap=True)
    streams.add_column(justify="right")
    streams.add_column(style="dim")
    for name, (columns, rate) in STREAMS.items():
        streams.add_row(name, f"{rate:,.0f}", ", ".join(columns))
    console.print(streams)

    _title(console, "queries")
    for name, (question, sql) in QUERIES.items():
        console.print(f"[bold cyan]{name}[/]  [italic]{question}")
        _show_sql(console, sql)


def _show_sql(console: Console, sql: str) -> None:
    from rich.syntax import Syntax

    coloured = Syntax("", "sql", theme="ansi_dark", background_color="default")
    for line in sql.splitlines():
        console.print("  ", coloured.highlight(line), sep="", end="", soft_wrap=True)


def _show_tuple(console: Console, plan: Plan) -> None:
    """The probe tree of one stream: every step runs once, however many queries need it."""
    from rich.tree import Tree

    from clash.cli.paint import paint
    from clash.explain.shares import share_costs
    from clash.explain.wording import arrow, store_name

    forest = share_costs(plan).forest
    arrows = {
        id(node): arrow(step, plan.workers)
        for order, path in zip(plan.probe_orders, forest.paths, strict=True)
        for step, node in zip(order.steps, path, strict=True)
    }
    root = next(root for root in forest.roots if root.origin.stream == FOLLOWED)
    own_store = next(str(store) for store in plan.stores if store.key.stream == FOLLOWED)
    answered = {name for node in root.walk() for name in node.emits}
    steps = sum(1 for _ in root.walk()) - 1
    _title(console, f"what a tuple of {FOLLOWED} does: {steps} steps, {len(answered)} queries")

    def add_children(tree: Tree, node: Node) -> None:
        for child in node.children.values():
            if child.store is None:
                continue
            label = paint(f"{arrows[id(child)]} {store_name(child.store)}[{child.layout}]")
            if child.emits:
                label.append("  answers ").append(", ".join(child.emits), "bold cyan")
            if child.feeds:
                label.append(f"  stored as {', '.join(map(store_name, child.feeds))}", "dim")
            add_children(tree.add(label), child)

    tree = Tree(paint(f"{FOLLOWED}, stored in {own_store}, probes"), guide_style="dim")
    add_children(tree, root)
    console.print(tree)
    if plan.workers > 1:
        console.print("[dim]› on the worker where it is, » over the network; each step runs once for all queries below it")


def _show_saving(console: Console, plan: Plan) -> None:
    from clash.explain.wording import number, percent, plural

    costs = {compared.strategy: compared for compared in plan.compare()}
    independent, shared = costs["independent"], costs["global"]
    _title(console, "what sharing saves")
    console.print(
        f"[bold green]{percent(shared.cost / independent.cost)}[/] of the estimated cost of {len(plan.queries)} queries each on its own,"
        f" and {plural(shared.stores, 'store')} instead of {independent.stores}."
    )
    question, sql = ADDITIONAL_QUERY
    what_if = plan.what_if(sql)
    console.print(
        f"One more query, [italic]{question}[/] would add [bold green]{number(what_if.marginal)}[/] to the plan's {number(plan.cost)};"
        f" on its own it would cost {number(what_if.alone)}."
    )
    console.print("[dim]The whole plan, and plans for your own queries: clash explain --help")
