// Queries: what each returns, how fast and how late, since when completely, and its last results.

import { call } from "./api.js";
import { Chart, lineColour, ratesOverTime } from "./charts.js";
import { h, keyed, setAttributes, setText } from "./dom.js";
import { rate, seconds, short, whole } from "./format.js";
import { askForQuery, confirmRemoval, problemBox } from "./forms.js";
import { live, on } from "./live.js";
import { refreshSeries, series } from "./series.js";
import { completeness } from "./view_topology.js";

const COLUMNS = ["query", "rate", "results", "latency p50", "p95", "complete", "cost", ""];

export function queriesView() {
  const body = h("tbody");
  const empty = h("p", { class: "empty", hidden: true }, "No query runs. Add one: the streams are read and wait for it.");
  const table = h("table", { class: "stacked-rows" }, h("thead", {}, h("tr", {}, COLUMNS.map((name, at) => h("th", { class: at > 0 && at < 7 ? "number" : "", scope: "col" }, name)))), body);
  const place = h("div");
  const chart = new Chart(place, { height: 210, format: rate });
  const sampleTitle = h("h2", {}, "Last results");
  const sampleNote = h("p");
  const sample = h("div", { class: "wide" });
  const sampleCard = h("section", { class: "card", hidden: true }, h("header", {}, sampleTitle, sampleNote), sample);
  const element = h("div", { class: "view" }, h("div", { class: "scroll" },
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Queries"), h("p", {}, "Latency is from the arrival of the last row to the commit of the result, over the last minute.")), h("div", { class: "wide" }, table), empty),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Results per second")), place),
    sampleCard));
  let chosen = null;
  let sampled = 0;

  const choose = (name) => {
    chosen = name;
    sampled = 0;
    refresh();
    loadSample();
  };

  async function loadSample() {
    sampleCard.hidden = chosen === null;
    if (chosen === null || Date.now() - sampled < 2500) return;
    sampled = Date.now();
    const name = chosen;
    setText(sampleTitle, `Last results of ${name}`);
    try {
      const found = await call("GET", `api/results/${encodeURIComponent(name)}?last=20`);
      if (name === chosen) showSample(found);
    } catch (error) {
      if (name === chosen) sample.replaceChildren(problemBox(error));
    }
  }

  function showSample(found) {
    const columns = found.columns.map((column) => column.name);
    setText(sampleNote, found.rows.length ? `the last ${found.rows.length}, of batches up to ${whole(found.batch)}` : "");
    sample.replaceChildren(found.rows.length === 0
      ? h("p", { class: "empty" }, "No results yet.")
      : h("table", {}, h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, value(cell))))))));
  }

  function refresh() {
    if (!element.isConnected) return;
    const queries = live.queries ?? [];
    empty.hidden = queries.length > 0;
    if (chosen !== null && !queries.some((query) => query.name === chosen)) chosen = null;
    keyed(body, queries, (query) => query.name, (query) => createRow(query, choose), (row, query) => updateRow(row, query, chosen));
  }

  async function refreshChart() {
    if (!element.isConnected) return;
    await refreshSeries();
    const names = (live.queries ?? []).map((query) => query.name);
    chart.set(names.map((label, at) => ({ label, stroke: lineColour(at) })), ratesOverTime(series.batches, "results", names));
  }

  on(["queries"], refresh);
  on(["batch"], () => { if (element.isConnected) { refreshChart(); loadSample(); } });
  return { element, show() { refresh(); refreshChart(); if (live.pick?.kind === "query") choose(live.pick.id); else loadSample(); } };
}

const value = (found) => (found === null || found === undefined ? "NULL" : typeof found === "object" ? JSON.stringify(found) : String(found));

function createRow(query, choose) {
  const button = (text, action, kind = "quiet") => h("button", { type: "button", class: kind, onclick: (event) => { event.stopPropagation(); action(); } }, text);
  const current = () => live.queries.find((found) => found.name === query.name) ?? query;
  return h("tr", { class: "selectable", onclick: () => choose(query.name) },
    h("td", { class: "name" }, h("button", { type: "button", class: "quiet", title: "Show its last results" }, query.name), h("div", { class: "sub" })),
    ...COLUMNS.slice(1, 7).map((label) => h("td", { class: "number", "data-label": label === "p95" ? "latency p95" : label })),
    h("td", { class: "number" }, button("Replace", () => askForQuery(current())), button("Remove", () => confirmRemoval(query.name))));
}

function updateRow(row, query, chosen) {
  const [name, rated, results, p50, p95, complete, cost] = row.children;
  setText(name.lastElementChild, `${query.streams.join(" ⋈ ")} → ${query.sink}`);
  setText(rated, rate(query.rate));
  setText(results, whole(query.results));
  setText(p50, query.latency ? seconds(query.latency.p50) : "–");
  setText(p95, query.latency ? seconds(query.latency.p95) : "–");
  setText(complete, completeness(query));
  setText(cost, short(query.share));
  setAttributes(cost, { title: `its share; with all that it uses: ${short(query.in_full)}` });
  setAttributes(row, { "aria-selected": String(query.name === chosen) });
}
