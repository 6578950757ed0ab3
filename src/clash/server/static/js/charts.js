// Charts in the colours of the theme.

import uPlot from "../vendor/uplot.js";
import { h } from "./dom.js";
import { short } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = [248, 160, 28, 200, 340, 95, 285, 55, 130, 10, 225, 310];

export function lineColour(at) {
  const isDark = document.documentElement.dataset.theme === "dark";
  return `hsl(${PALETTE[at % PALETTE.length]} ${isDark ? "65% 66%" : "60% 46%"})`;
}

/** Those that are drawn, or will be when their view is shown again. */
export const charts = new Set();
addEventListener("themechange", () => { for (const chart of charts) chart.redraw(); });

/** A chart of lines over time: `{label, stroke, dash?, fill?}` each. It takes the width of its place, and lives until `destroy`. */
export class Chart {
  constructor(place, { height = 190, format = short, legend = true } = {}) {
    Object.assign(this, { place, height, format, legend, plot: null, shape: "" });
    place.classList.add("chart");
    this.observer = new ResizeObserver(() => { if (place.clientWidth) this.plot?.setSize({ width: place.clientWidth, height: this.height }); });
    this.observer.observe(place);
    charts.add(this);
  }

  redraw() {
    this.shape = "";
    if (this.last) this.set(...this.last);
  }

  clear() {
    this.plot?.destroy();
    this.plot = null;
    this.shape = "";
  }

  destroy() {
    this.observer.disconnect();
    this.clear();
    charts.delete(this);
  }

  set(lines, data) {
    this.last = [lines, data];
    if (!this.place.isConnected || this.place.clientWidth === 0) return;
    if (data[0].length < 2) {
      this.clear();
      this.place.replaceChildren(h("p", { class: "empty" }, "Drawn from the second batch on."));
      return;
    }
    const shape = JSON.stringify(lines);
    if (shape === this.shape) {
      this.plot.setData(data);
      return;
    }
    this.clear();
    this.shape = shape;
    this.place.replaceChildren();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.place.clientWidth,
      height: this.height,
      padding: [8, 8, 0, 0],
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      legend: { show: this.legend, live: true },
      scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1e-6) * 1.08] } },
      axes: [
        { ...axis, grid: { show: false }, size: 26, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB")), space: 80 },
        { ...axis, size: 50, values: (_, ticks) => ticks.map(this.format), space: 34 },
      ],
      series: [
        { label: "time", value: (_, value) => (value ? new Date(value * 1000).toLocaleTimeString("en-GB") : "–") },
        ...lines.map((line) => ({
          label: line.label, stroke: line.stroke, width: line.dash ? 1.2 : 1.8, dash: line.dash, fill: line.fill, spanGaps: true, points: { show: false },
          value: (_, value) => (value === null || value === undefined ? "–" : this.format(value)),
        })),
      ],
    }, data, this.place);
  }
}

/** Sums of counts per second, over steps of time that are long enough for a smooth line. */
export function ratesOverTime(batches, part, wanted) {
  if (batches.length < 2) return [[], ...wanted.map(() => [])];
  const [first, last] = [batches[0].time, batches.at(-1).time];
  const step = Math.max(1, (last - first) / 120);
  const times = [];
  const sums = wanted.map(() => []);
  let began = first;
  let group = [];
  for (const batch of batches.slice(1)) {
    group.push(batch);
    if (batch.time - began >= step) {
      times.push(batch.time);
      wanted.forEach((name, at) => sums[at].push(group.reduce((sum, entry) => sum + (entry[part][name] ?? 0), 0) / (batch.time - began)));
      began = batch.time;
      group = [];
    }
  }
  return [times, ...sums];
}
