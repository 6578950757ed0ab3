// State: what each store holds over time, against what its window is expected to hold, and which queries share it.

import { Chart } from "./charts.js";
import { h, keyed, setAttributes, setStyle, setText } from "./dom.js";
import { bytes, percent, plural, seconds, short, whole } from "./format.js";
import { live, on, pick } from "./live.js";
import { refreshSeries, series } from "./series.js";

export function stateView() {
  const tiles = h("div", { class: "tiles" });
  const total = h("p");
  const matrix = h("div", { class: "matrix" });
  const charts = new Map();
  const element = h("div", { class: "view" }, h("div", { class: "scroll" },
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Rows per store over time"), total), tiles),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Who shares what"), h("p", {}, "A row per store, a column per query; each store is held once, whoever uses it.")), matrix)));

  function refresh() {
    const { topology, flows } = live;
    if (!element.isConnected || !topology || !flows) return;
    const sizes = Object.values(flows.stores);
    setText(total, `${whole(sizes.reduce((sum, size) => sum + size.rows, 0))} rows, ${bytes(sizes.reduce((sum, size) => sum + size.bytes, 0))} in ${plural(topology.stores.length, "store")}`);
    keyed(tiles, topology.stores, (store) => store.id, createTile, (tile, store) => updateTile(tile, store, flows.stores[store.id]));
    for (const [id, chart] of charts) {
      if (topology.stores.some((store) => store.id === id)) continue;
      chart.destroy();
      charts.delete(id);
    }
  }

  function createTile(store) {
    const place = h("div");
    charts.set(store.id, new Chart(place, { height: 112, legend: false }));
    return h("div", { class: "tile" }, h("header", {}, h("strong", { title: `${store.name}, ${store.layouts.join(" and ")}` }, store.name), h("span")), h("div", { class: "sub" }, h("span"), h("span")), place);
  }

  async function refreshCharts() {
    const { topology } = live;
    if (!element.isConnected || !topology) return;
    await refreshSeries();
    const style = getComputedStyle(document.documentElement);
    const [accent, faint] = ["--accent", "--faint"].map((name) => style.getPropertyValue(name).trim());
    const times = series.batches.map((entry) => entry.time);
    for (const store of topology.stores) {
      const rows = series.batches.map((entry) => entry.stores[store.id] ?? null);
      const expected = store.rows && store.window !== null ? [{ label: "full window", stroke: faint, dash: [4, 4] }] : [];
      charts.get(store.id)?.set([{ label: "rows", stroke: accent, fill: `${accent}1f` }, ...expected], [times, rows, ...expected.map(() => times.map(() => store.rows * store.layouts.length))]);
    }
  }

  let drawn = null;
  function refreshMatrix() {
    if (!element.isConnected || !live.topology || drawn === live.topology) return;
    drawn = live.topology;
    matrix.replaceChildren(drawMatrix(live.topology));
  }

  on(["topology", "flows"], () => { refresh(); refreshMatrix(); });
  on(["batch"], refreshCharts);
  return { element, show() { refresh(); refreshMatrix(); refreshCharts(); } };
}

function updateTile(tile, store, size) {
  const [header, sub] = tile.children;
  setText(header.lastElementChild, size ? bytes(size.bytes) : "empty");
  setText(sub.firstElementChild, `${size ? short(size.rows) : 0} rows`);
  setText(sub.lastElementChild, store.window === null ? "unbounded" : `${percent(size?.window_share ?? 0)} of ${seconds(store.window)}`);
}

function drawMatrix(topology) {
  if (topology.queries.length === 0) return h("p", { class: "empty" }, "No query runs.");
  const choose = (kind, id) => { pick(kind, id); location.hash = "topology"; };
  return h("table", {},
    h("thead", {}, h("tr", {}, h("th"), topology.queries.map((query) => h("th", { scope: "col" }, h("button", { type: "button", title: query.name, onclick: () => choose("query", query.name) }, query.name))), h("th"))),
    h("tbody", {}, topology.stores.map((store, row) => h("tr", {}, h("th", { scope: "row" }, store.owner ? `${store.owner}: ${store.name}` : store.name),
      topology.queries.map((query) => {
        const isUsed = store.users.includes(query.name);
        const mark = h("span", { class: isUsed ? "used" : "" });
        if (isUsed) setStyle(mark, "--hue", String(Math.round(250 + row * 137.5) % 360));
        const cell = h("td", {}, mark);
        setAttributes(cell, { title: isUsed ? `${query.name} uses ${store.name}` : null, "aria-label": isUsed ? "uses it" : "does not use it" });
        return cell;
      }),
      h("td", { class: "count" }, plural(store.users.length, "query"))))));
}
