// Batches: where the time of the last ones went, how far behind the streams are, and how evenly the workers are busy.

import { BatchStrip, PARTS, sumOf } from "./batch_strip.js";
import { Chart, lineColour, ratesOverTime } from "./charts.js";
import { bar, h, keyed, setAttributes, setBar, setStyle, setText } from "./dom.js";
import { backlog, clock, eventTime, percent, plural, rate, seconds, whole } from "./format.js";
import { live, on } from "./live.js";
import { refreshSeries, series } from "./series.js";

const TASKS = { source: "read", ingest: "route", store: "store", probe: "probe", route: "send", shuffle: "shuffle", sink: "write results" };

export function batchesView() {
  const title = h("h2");
  const when = h("p");
  const rowsNote = h("p", { class: "muted rows-note" });
  let chosen = null;
  const strip = new BatchStrip((entry) => { chosen = entry; refresh(); });
  const waterfall = h("div", { class: "waterfall" });
  const time = h("div");
  const rows = h("div");
  const timeChart = new Chart(time, { height: 170, format: seconds, legend: false });
  const rowChart = new Chart(rows, { height: 200, format: rate });
  const streams = h("tbody");
  const workers = h("div", { class: "scale" });
  const workersNote = h("p");
  const evenly = h("p", { class: "empty", hidden: true });
  const HEAD = ["stream", "rate", "rows", "behind", "backlog", "late", "rejected", "lost", "watermark"];
  const element = h("div", { class: "view" }, h("div", { class: "scroll" },
    strip.element,
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("header", {}, title, when), rowsNote, waterfall),
      h("div", { class: "stacked" },
        h("section", { class: "card" }, h("header", {}, h("h2", {}, "Seconds per batch")), time),
        h("section", { class: "card" }, h("header", {}, h("h2", {}, "Workers"), workersNote), workers, evenly))),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Streams"), h("p", {}, "Behind: the time since the newest event. Watermarks are in UTC.")),
      h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, HEAD.map((name, at) => h("th", { class: at ? "number" : "", scope: "col" }, name)))), streams))),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Rows per second")), rows)));

  function refresh() {
    const { batch, flows } = live;
    if (!element.isConnected || !batch || !flows) return;
    const shown = chosen ?? batch;
    setText(title, chosen === null ? "The last batch" : `Batch ${whole(chosen.batch)}`);
    setText(when, shown.timestamp === null ? "none yet" : `${chosen === null ? `batch ${whole(shown.batch)}, ` : ""}${clock(shown.timestamp)}, ${seconds(shown.trigger ?? shown.seconds)}`);
    setText(rowsNote, shown.timestamp === null ? "" : `${plural(sumOf(shown.input), "row")} in, ${lateRows(shown.late)}, ${plural(sumOf(shown.results), "result")} out`);
    drawWaterfall(waterfall, shown);
    keyed(streams, Object.entries(flows.streams), ([name]) => name, createStream, updateStream);
    const shares = flows.workers;
    const hottest = Math.max(0, ...shares);
    setText(workersNote, shares.length ? `the hottest has ${percent(hottest)} of the work, ${(hottest * shares.length).toFixed(2)} times its part` : "");
    evenly.hidden = shares.length > 0;
    setText(evenly, withoutShares(flows));
    keyed(workers, shares.map((share, at) => ({ share, at })), ({ at }) => at,
      ({ at }) => h("div", { class: "line" }, h("span", {}, `worker ${at}`), bar(0, ""), h("span", { class: "value" }), h("span", { class: "note" })),
      (line, { share }) => { setBar(line.children[1], share / Math.max(hottest, 1e-9), percent(share)); setText(line.children[2], percent(share)); });
  }

  async function refreshCharts() {
    if (!element.isConnected) return;
    await refreshSeries();
    const names = Object.keys(live.flows?.streams ?? {});
    rowChart.set(names.map((label, at) => ({ label, stroke: lineColour(at) })), ratesOverTime(series.batches, "input", names));
    strip.set(series.batches);
    timeChart.set([{ label: "seconds", stroke: lineColour(0) }], [series.batches.map((entry) => entry.time), series.batches.map((entry) => entry.seconds)]);
  }

  on(["batch", "flows"], refresh);
  on(["batch"], refreshCharts);
  return { element, show() { refresh(); refreshCharts(); } };
}

function lateRows(late) {
  const streams = Object.entries(late ?? {}).filter(([, rows]) => rows > 0);
  return streams.length ? `${whole(sumOf(late))} late (${streams.map(([name, rows]) => `${name} ${whole(rows)}`).join(", ")})` : "none late";
}

/** Why there is nothing to compare. */
function withoutShares(flows) {
  if (!Object.values(flows.streams).some((stream) => stream.rate > 0)) return "Nothing has arrived in the last ten seconds.";
  const workers = live.status?.workers ?? 1;
  if (workers === 1) return "There is one worker: it does all the work.";
  return `One task has done the work of all ${workers} workers: batches are so small that more tasks would take longer. There is nothing to compare.`;
}

function createStream([name]) {
  return h("tr", {}, h("td", { class: "name" }, name), ...Array.from({ length: 8 }, () => h("td", { class: "number" })));
}

function updateStream(row, [, stream]) {
  const values = [rate(stream.rate), whole(stream.rows), seconds(stream.delay), backlog(stream.backlog), whole(stream.late), whole(stream.rejected), whole(stream.lost), eventTime(stream.watermark)];
  values.forEach((value, at) => setText(row.children[at + 1], value));
}

function drawWaterfall(place, batch) {
  const driver = Object.entries(batch.driver);
  const total = Math.max(1e-6, driver.reduce((sum, [, value]) => sum + value, 0));
  let began = 0;
  const lines = [{ key: "driver", heading: "One after the other" }];
  for (const [name, value] of driver) {
    lines.push({ key: name, text: PARTS[name] ?? name, value, left: began / total, width: value / total, kind: name });
    began += value;
  }
  const tasks = Object.entries(batch.tasks);
  const most = Math.max(1e-6, ...tasks.map(([, value]) => value));
  if (tasks.length) lines.push({ key: "tasks", heading: "What the tasks did, added up over all of them" });
  for (const [name, value] of tasks) lines.push({ key: `task-${name}`, text: TASKS[name] ?? name, value, left: 0, width: value / most, kind: "task" });
  const cells = lines.flatMap((line) => (line.heading ? [line] : [{ ...line, cell: "name" }, { ...line, cell: "lane" }, { ...line, cell: "number" }]));
  keyed(place, cells, (cell) => `${cell.key}-${cell.cell ?? "heading"}`,
    (cell) => (cell.heading ? h("h3", {}, cell.heading) : cell.cell === "lane" ? h("span", { class: "lane" }, h("span", { class: "part" })) : h("span", { class: cell.cell })),
    (element, cell) => {
      if (cell.cell === "name") setText(element, cell.text);
      else if (cell.cell === "number") setText(element, seconds(cell.value));
      else if (cell.cell === "lane") {
        setAttributes(element.firstElementChild, { class: `part ${cell.kind}` });
        setStyle(element.firstElementChild, "left", `${(100 * cell.left).toFixed(2)}%`);
        setStyle(element.firstElementChild, "width", `${(100 * cell.width).toFixed(2)}%`);
      }
    });
}
