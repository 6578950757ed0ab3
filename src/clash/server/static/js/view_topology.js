// The picture of the topology, with the queries and what is picked beside it.

import { bar, h, keyed, s, setAttributes, setBar, setText } from "./dom.js";
import { bytes, names, percent, plural, rate, seconds, short, whole } from "./format.js";
import { askForQuery, confirmRemoval } from "./forms.js";
import { live, on, pick } from "./live.js";
import { LOADS, Picture } from "./picture.js";

export function topologyView() {
  const svg = s("svg", { role: "group", "aria-label": "The topology: streams on the left, probe steps, queries on the right. Arrow keys move between nodes.", tabindex: 0 });
  const picture = new Picture(svg, pick);
  const search = h("input", { type: "search", placeholder: "Search  ( / )", "aria-label": "Search streams, stores, queries and keys" });
  const hits = h("output", { class: "hits" });
  let hit = -1;
  const refreshHits = () => setText(hits, search.value.trim() === "" ? "" : hit < 0 ? plural(picture.hits.length, "hit") : `${hit + 1} of ${picture.hits.length}`);
  const find = (text) => {
    search.value = text;
    hit = -1;
    picture.search(text);
    refreshHits();
  };
  search.addEventListener("input", () => find(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && picture.hits.length) {
      hit = (hit + (event.shiftKey ? -1 : 1) + picture.hits.length) % picture.hits.length;
      picture.reveal(picture.hits[hit]);
      refreshHits();
    } else if (event.key === "Escape") {
      find("");
      svg.focus();
    }
  });
  const isolate = h("button", { type: "button", "aria-pressed": "false", title: "Show only what is picked (i)" }, "Isolate");
  isolate.addEventListener("click", () => {
    picture.setIsolated(!(picture.isolated ?? picture.isLarge));
    refreshTools();
  });
  const button = (text, title, action) => h("button", { type: "button", title, "aria-label": title, onclick: action }, text);
  const refreshTools = () => setAttributes(isolate, { "aria-pressed": String(picture.isolated ?? (picture.topology ? picture.isLarge : false)) });
  const tools = h(
    "div", { class: "tools" }, search, hits,
    button("+", "Zoom in (+)", () => picture.camera.zoom(1.25)),
    button("−", "Zoom out (-)", () => picture.camera.zoom(0.8)),
    button("Fit", "Show all (0)", () => picture.camera.fit({ isWhole: true })),
    isolate,
  );
  const side = h("aside", { class: "side", "aria-label": "Queries and details" });
  const list = h("div", { class: "list" });
  const details = h("section", { class: "details", hidden: true });
  const sharing = h("p", { class: "muted" });
  side.append(details, h("section", {}, h("header", {}, h("h2", {}, "Queries")), sharing, list));
  const element = h("div", { class: "topology view" }, h("div", { class: "canvas" }, h("div", { class: "stage" }, svg, tools), legend()), side);

  element.addEventListener("keydown", (event) => {
    if (event.target.closest("input, textarea, select")) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "i") isolate.click();
    else if (event.key === "Escape" && live.pick !== null) pick(null, null);
  });

  const isShown = () => element.isConnected;
  const drawTopology = () => { if (live.topology && isShown()) { forgetPick(); picture.setTopology(live.topology); hit = -1; refreshTools(); refreshHits(); } };
  let drawnTopology = null;
  const refresh = () => {
    if (!isShown() || !live.topology) return;
    if (drawnTopology !== live.topology) { drawnTopology = live.topology; drawTopology(); }
    if (live.flows) picture.measure(live.flows);
  };
  on(["topology", "flows"], () => { refresh(); showDetails(details); });
  on(["pick"], () => { if (isShown() && live.topology) picture.setPick(live.pick); showDetails(details); refreshList(list); });
  on(["queries"], () => { refreshList(list); showDetails(details); });
  on(["topology", "quality"], () => setText(sharing, sharingText()));
  return {
    element,
    show() {
      refresh();
      if (live.topology) picture.setPick(live.pick);
      showDetails(details);
      refreshList(list);
    },
  };
}

/** A query may have been removed, or a step have gone with its plan. */
function forgetPick() {
  const { pick: picked, topology } = live;
  if (picked === null) return;
  const found = { query: topology.queries.map((query) => query.name), stream: topology.streams.map((stream) => stream.name), store: topology.stores.map((store) => store.id), step: topology.steps.map((step) => step.id) };
  if (!found[picked.kind].includes(picked.id)) pick(null, null);
}

function sharingText() {
  const { topology, quality } = live;
  if (!topology || topology.queries.length === 0) return "No query runs. Add one.";
  const shared = topology.steps.filter((step) => step.users.length > 1).length;
  const text = `${shared} of ${plural(topology.steps.length, "probe step")} work for several queries`;
  if (!quality?.independent) return `${text}.`;
  return `${text}: the topology costs ${percent(quality.plan_cost / quality.independent.cost)} of ${topology.queries.length} separate jobs.`;
}

/** Where the list is below the picture, what was picked there is out of sight. */
function showPicture() {
  const canvas = document.querySelector(".canvas");
  if (live.pick !== null && canvas.getBoundingClientRect().bottom < 0) canvas.scrollIntoView({ block: "start" });
}

function refreshList(list) {
  const queries = live.queries ?? [];
  const most = Math.max(1e-9, ...queries.map((query) => query.share ?? 0));
  keyed(
    list, queries, (query) => query.name,
    (query) => h("button", { class: "row", type: "button", onclick: () => { pick("query", query.name); showPicture(); } },
      h("span", { class: "title" }, query.name), h("span", { class: "value" }), h("span", { class: "sub" }), h("span", { class: "sub" }), bar(0, "")),
    (row, query) => {
      const [, value, sub, latency, meter] = row.children;
      setText(value, rate(query.rate));
      setText(sub, `${whole(query.results)} results`);
      setText(latency, query.latency ? `p95 ${seconds(query.latency.p95)}` : "");
      setBar(meter, (query.share ?? 0) / most, `its share of the cost: ${short(query.share)}`);
      setAttributes(row, { "aria-pressed": String(live.pick?.kind === "query" && live.pick.id === query.name) });
    },
  );
}

// ---- what is picked --------------------------------------------------------------------------------------------------

function showDetails(section) {
  const { pick: picked, topology, flows } = live;
  if (!section.isConnected && picked !== null) return;
  section.hidden = picked === null;
  if (picked === null || !topology || !flows) return;
  const content = { query: queryDetails, stream: streamDetails, store: storeDetails, step: stepDetails }[picked.kind](picked.id);
  if (content === null) {
    section.hidden = true;
    return;
  }
  const text = content.map((node) => node.textContent).join("\u0000");
  if (section.dataset.text === text) return; // so that the focus stays on a button
  const focused = section.contains(document.activeElement) ? document.activeElement.textContent : null;
  section.dataset.text = text;
  section.replaceChildren(...content);
  if (focused !== null) [...section.querySelectorAll("button")].find((found) => found.textContent === focused)?.focus();
}

function head(kind, name) {
  return h("header", {}, h("h2", {}, name), h("button", { class: "quiet", type: "button", onclick: () => pick(null, null), "aria-label": "Close the details" }, `${kind}  ✕`));
}

const facts = (entries) => h("dl", { class: "facts" }, entries.filter(([, value]) => value !== null).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function queryDetails(name) {
  const query = live.queries?.find((found) => found.name === name);
  if (query === undefined) return null;
  const steps = live.topology.steps.filter((step) => step.users.includes(name));
  const shared = steps.filter((step) => step.users.length > 1).length;
  const total = live.topology.cost.total;
  return [
    head("query", name),
    facts([
      ["rate", rate(query.rate)],
      ["results", whole(query.results)],
      ["latency p50", query.latency ? seconds(query.latency.p50) : "–"],
      ["latency p95", query.latency ? seconds(query.latency.p95) : "–"],
      ["complete", completeness(query)],
      ["its share of the cost", `${short(query.share)}, ${percent(query.share / total)}`],
      ["with all that it uses", short(query.in_full)],
      ["probe steps", `${steps.length}, ${shared} shared`],
    ]),
    h("pre", { class: "sql" }, query.sql),
    h("h3", {}, "Its paths and what they cost"),
    h("ul", {}, paths(name)),
    h("div", { class: "chips" },
      h("button", { type: "button", onclick: () => askForQuery(query) }, "Replace"),
      h("button", { type: "button", class: "danger", onclick: () => confirmRemoval(name) }, "Remove"),
      h("button", { type: "button", onclick: () => { location.hash = "queries"; } }, "Results")),
  ];
}

export function completeness(query) {
  if (query.batch === null) return "begins with the next epoch";
  if (query.complete_from === null || query.complete_from === undefined) return "not yet";
  return query.complete_from === 0 ? "from the start" : `since batch ${whole(query.complete_from)}`;
}

/** Every path that ends in the query, from its origin on. */
function paths(name) {
  const { topology } = live;
  const [steps, origins, stores] = [new Map(topology.steps.map((step) => [step.id, step])), new Map(topology.origins.map((origin) => [origin.id, origin])), new Map(topology.stores.map((store) => [store.id, store]))];
  return topology.steps.filter((step) => step.emits.includes(name)).map((end) => {
    const way = [];
    let at = end;
    let cost = 0;
    for (; at !== undefined; at = steps.get(at.parent)) {
      way.unshift(stores.get(at.store).name);
      cost += at.cost ?? 0;
      if (!steps.has(at.parent)) way.unshift(origins.get(at.parent)?.name ?? "?");
    }
    return h("li", { class: "path" }, h("span", {}, way.join(" › ")), h("span", { class: "muted" }, short(cost)));
  });
}

function heldFacts(store) {
  const size = live.flows.stores[store.id];
  return [
    ["rows", size ? `${whole(size.rows)}` : "none"],
    ["bytes", size ? `${bytes(size.bytes)} in ${plural(size.containers, "container")}` : "none"],
    ["layout", store.layouts.join(" and ")],
    ["window", store.window === null ? "unbounded" : `${seconds(store.window)}${size?.window_share != null ? `, ${percent(size.window_share)} full` : ""}`],
    ["expected rows", store.rows === null ? null : short(store.rows)],
    ["cost", store.cost === null ? null : short(store.cost)],
  ];
}

function usedBy(store) {
  const steps = live.topology.steps.filter((step) => step.store === store.id);
  return [
    h("h3", {}, `${plural(store.users.length, "query")} use it, ${plural(steps.length, "step")} probe it`),
    h("div", { class: "chips" }, store.users.map((name) => h("button", { class: "chip", type: "button", onclick: () => pick("query", name) }, name))),
  ];
}

function streamDetails(name) {
  const { topology, flows } = live;
  const stream = topology.streams.find((found) => found.name === name);
  if (stream === undefined) return null;
  const measured = flows.streams[name] ?? {};
  const stores = topology.stores.filter((store) => store.stream === name);
  return [
    head(stream.is_table ? "table" : "stream", name),
    stream.is_table ? h("p", { class: "muted" }, "A reference table: what arrives on streams looks its rows up.") : facts([
      ["rate", rate(measured.rate)],
      ["rows so far", whole(measured.rows)],
      ["late", whole(measured.late)],
      ["behind", seconds(measured.delay)],
      ["event time", stream.time ?? "the time of the batch"],
      ["columns", stream.columns.map(([column]) => column).join(", ")],
    ]),
    ...stores.flatMap((store) => [h("h3", {}, store.owner === null ? "Its store" : `Its store for ${store.owner}`), facts(heldFacts(store)), ...usedBy(store)]),
  ];
}

function storeDetails(id) {
  const store = live.topology.stores.find((found) => found.id === id);
  if (store === undefined) return null;
  const feeders = live.topology.steps.filter((step) => step.feeds.includes(id)).length;
  return [head("intermediate result", store.name), facts([...heldFacts(store), ["filled by", plural(feeders, "step")]]), ...usedBy(store)];
}

function stepDetails(id) {
  const { topology, flows } = live;
  const step = topology.steps.find((found) => found.id === id);
  if (step === undefined) return null;
  const store = topology.stores.find((found) => found.id === step.store);
  const [probes, matches] = flows.steps[id] ?? [0, 0];
  const travels = { network: "over the network to one worker", local: "stay on their worker", everywhere: "go to every worker" }[step.travels];
  return [
    head("probe step", store.name),
    facts([
      ["tuples in", rate(probes)],
      ["matches out", rate(matches)],
      ["matches per tuple", probes > 0 ? (matches / probes).toFixed(2) : "–"],
      ["by", step.keys.join(" and ") || "every stored row"],
      ["tuples", travels],
      ["round", whole(step.round)],
      ["cost", step.cost === null ? "–" : short(step.cost)],
      ["answers", step.emits.length ? names(step.emits) : null],
      ["rows", step.is_branch ? "only some: a store is being filled" : null],
    ]),
    h("h3", {}, step.users.length > 1 ? `Runs once for ${step.users.length} queries` : "Runs for one query"),
    h("div", { class: "chips" }, step.users.map((name) => h("button", { class: "chip", type: "button", onclick: () => pick("query", name) }, name))),
  ];
}

function legend() {
  const line = (attributes) => s("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, s("path", { d: "M1,6 H25", fill: "none", "stroke-width": 2.6, ...attributes }));
  const load = (at) => [line({ class: "edge", "data-load": at }), at < LOADS.length ? `< ${100 * LOADS[at]} %` : `≥ ${100 * LOADS[at - 1]} %`];
  return h("ul", { class: "legend", "aria-label": "Legend" },
    h("li", {}, h("b", {}, "1.2k"), "tuples/s, share of all:", [0, 1, 2, 3].map(load)),
    h("li", {}, line({ class: "edge" }), "to one worker"),
    h("li", {}, line({ class: "edge local" }), "on its worker"),
    h("li", {}, line({ class: "edge feed" }), "into a store"),
    h("li", {}, h("span", { class: "badge" }, "×3"), "for 3 queries"),
    h("li", { class: "of-pick" }, h("b", {}, "870"), "cost of a pick"),
  );
}
