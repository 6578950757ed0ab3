// The last batches as bars: where the time of each went, and how many of its rows were late. One of them can be chosen.

import { h, keyed, setAttributes, setStyle, setText } from "./dom.js";
import { plural, seconds, whole } from "./format.js";

export const PARTS = { offsets: "Spark plans the batch", decide: "decide and record", job: "tasks run", commit: "commit", sinks: "hand over results", spark: "Spark's own commit" };
const SHOWN = 60;
const MOST_MEDIANS = 3; // a bar is cut off above so many medians: one slow batch would hide all others

const total = (entry) => entry.trigger ?? (Object.values(entry.driver ?? {}).reduce((sum, value) => sum + value, 0) || entry.seconds);
export const sumOf = (counts) => Object.values(counts ?? {}).reduce((sum, value) => sum + value, 0);

export class BatchStrip {
  /** `onChoose(entry)`: with the chosen batch, or null to follow the newest. */
  constructor(onChoose) {
    Object.assign(this, { onChoose, entries: [], chosen: null });
    this.top = h("span", { class: "top" });
    this.bars = h("div", { class: "strip", role: "slider", tabindex: 0, "aria-label": "Batch", "aria-valuemin": 0 });
    this.follow = h("button", { type: "button", hidden: true, onclick: () => this.choose(null) }, "Follow the newest");
    this.note = h("p");
    this.legend = h("ul", { class: "parts" }, Object.entries(PARTS).map(([name, text]) => h("li", {}, h("span", { class: `key ${name}` }), text)), h("li", {}, h("span", { class: "key late" }), "late rows"));
    this.element = h("section", { class: "card" }, h("header", {}, h("h2", {}, "Recent batches"), this.note, this.follow), h("div", { class: "strip-place" }, this.top, this.bars), this.legend);
    this.bars.addEventListener("click", (event) => {
      const bar = event.target.closest(".batch");
      if (bar !== null) this.choose(Number(bar.dataset.key));
    });
    this.bars.addEventListener("keydown", (event) => this.onKey(event));
  }

  set(batches) {
    this.entries = batches.slice(-SHOWN);
    if (!this.entries.some((entry) => entry.batch === this.chosen) && this.chosen !== null) this.choose(null);
    else this.draw();
  }

  choose(batch) {
    this.chosen = batch;
    this.draw();
    this.onChoose(this.entries.find((entry) => entry.batch === batch) ?? null);
  }

  onKey(event) {
    const at = this.entries.findIndex((entry) => entry.batch === this.chosen);
    const last = this.entries.length - 1;
    const from = at < 0 ? last : at;
    const to = { ArrowLeft: Math.max(0, at < 0 ? last : from - 1), ArrowRight: Math.min(last, from + 1), Home: 0, End: last }[event.key];
    if (event.key === "Escape" && this.chosen !== null) this.choose(null);
    else if (to !== undefined && last >= 0) this.choose(this.entries[to].batch);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  draw() {
    const { entries } = this;
    const times = entries.map(total).sort((a, b) => a - b);
    const median = times[Math.floor(times.length / 2)] ?? 0;
    const most = Math.max(1e-6, Math.min(times.at(-1) ?? 0, MOST_MEDIANS * median));
    const mostLate = Math.max(1, ...entries.map((entry) => sumOf(entry.late)));
    const late = entries.reduce((sum, entry) => sum + sumOf(entry.late), 0);
    setText(this.note, entries.length === 0 ? "No batch yet." : `${plural(entries.length, "batch")}: half of them took at most ${seconds(median)}, the slowest ${seconds(times.at(-1))}; ${late ? plural(late, "late row") : "no late rows"}`);
    setText(this.top, entries.length ? seconds(most) : "");
    this.follow.hidden = this.chosen === null;
    keyed(this.bars, entries, (entry) => entry.batch, createBar, (bar, entry) => {
      for (const [at, name] of Object.keys(PARTS).entries()) setStyle(bar.firstElementChild.children[at], "height", `${((100 * (entry.driver?.[name] ?? 0)) / most).toFixed(2)}%`);
      setStyle(bar.lastElementChild.firstElementChild, "height", `${((14 * sumOf(entry.late)) / mostLate).toFixed(1)}px`);
      bar.classList.toggle("over", total(entry) > most * 1.0001);
      setAttributes(bar, { title: describe(entry), "aria-current": entry.batch === this.chosen ? "true" : null });
    });
    const now = entries.find((entry) => entry.batch === this.chosen) ?? entries.at(-1);
    setAttributes(this.bars, { "aria-valuemax": Math.max(0, entries.length - 1), "aria-valuenow": Math.max(0, entries.indexOf(now)), "aria-valuetext": now ? describe(now) : "none" });
  }
}

function createBar() {
  return h("div", { class: "batch" }, h("div", { class: "stack" }, Object.keys(PARTS).map((name) => h("span", { class: name }))), h("div", { class: "below" }, h("span", { class: "late" })));
}

function describe(entry) {
  return `batch ${whole(entry.batch)}: ${seconds(total(entry))}, ${plural(sumOf(entry.input), "row")} in, ${plural(sumOf(entry.results), "result")} out, ${sumOf(entry.late) ? plural(sumOf(entry.late), "late row") : "none late"}`;
}
