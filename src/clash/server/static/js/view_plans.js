// Plans: what the running one costs beside others, and every one so far with what it promised and what came of it.

import { bar, h, keyed, setBar, setText } from "./dom.js";
import { bytes, percent, plural, short, times, whole } from "./format.js";
import { live, on } from "./live.js";

const SETTLED = 3; // batches after which a measured cost says something: the first ones open stores

export function plansView() {
  const headline = h("p", { class: "headline" });
  const scale = h("div", { class: "scale" });
  const held = h("p", { class: "headline" });
  const heldScale = h("div", { class: "scale" });
  const timeline = h("ol", { class: "timeline" });
  const element = h("div", { class: "view" }, h("div", { class: "scroll" },
    h("div", { class: "columns" },
      h("section", { class: "card" }, h("header", {}, h("h2", {}, "What the running plan costs"), h("p", {}, "the planner's estimate")), headline, scale),
      h("section", { class: "card" }, h("header", {}, h("h2", {}, "What separate jobs would hold"), h("p", {}, "estimated rows of all stores, with full windows")), held, heldScale)),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Generations"), h("p", {}, "every plan so far, the newest first; measured are microseconds of all tasks per row")), timeline)));

  function refreshQuality() {
    const { quality } = live;
    if (!element.isConnected || !quality) return;
    const { cost, best, bound, independent } = quality;
    const lines = [
      { key: "running", text: "the running plan", value: cost, note: times(1) },
      { key: "best", text: "the best plan known", value: best, note: cost > 0 ? times(best / cost) : "–", kind: "other" },
      { key: "bound", text: quality.proven ? "the optimum, proven" : "no plan costs less, proven", value: bound, note: cost > 0 ? times(bound / cost) : "–", kind: "bound" },
    ];
    if (independent) lines.push({ key: "independent", text: "separate jobs", value: independent.cost * (cost / (quality.plan_cost || 1)), note: times(independent.cost / (quality.plan_cost || 1)), kind: "other" });
    drawScale(scale, lines, short);
    const over = cost > 0 && bound > 0 ? cost / bound - 1 : 0;
    const best_ = cost > best * 1.0005 ? `${percent(cost / best - 1)} over the best plan known and ` : "";
    headline.replaceChildren(quality.stores === 0 ? "No query runs." : h("span", {}, h("strong", {}, `at most ${percent(over)}`), ` over the cheapest plan there can be`, best_ ? `; ${best_.replace(/ and $/, "")}` : ""));
    if (!independent) {
      held.replaceChildren("is being planned …");
      heldScale.replaceChildren();
      return;
    }
    const ratio = independent.rows / Math.max(1e-9, quality.rows);
    held.replaceChildren(h("span", {}, h("strong", {}, times(ratio)), ` the rows, in ${plural(independent.stores, "store")} instead of ${quality.stores}`,
      quality.held.bytes ? `: now about ${bytes(quality.held.bytes * ratio)} instead of ${bytes(quality.held.bytes)}` : ""));
    drawScale(heldScale, [
      { key: "running", text: "this topology", value: quality.rows, note: "rows" },
      { key: "independent", text: "separate jobs", value: independent.rows, note: "rows", kind: "other" },
    ], short);
  }

  function refreshGenerations() {
    const { generations } = live;
    if (!element.isConnected || !generations) return;
    const newest = generations.at(-1)?.generation;
    const before = new Map(generations.map((found, at) => [found.generation, generations[at - 1]]));
    keyed(timeline, [...generations].reverse(), (found) => found.generation, createGeneration, (item, found) => updateGeneration(item, found, before.get(found.generation), newest));
  }

  on(["quality"], refreshQuality);
  on(["generations"], refreshGenerations);
  return { element, show() { refreshQuality(); refreshGenerations(); } };
}

function drawScale(place, lines, format) {
  const most = Math.max(1e-9, ...lines.map((line) => line.value));
  keyed(place, lines, (line) => line.key,
    (line) => h("div", { class: `line ${line.kind ?? ""}` }, h("span"), bar(0, ""), h("span", { class: "value" }), h("span", { class: "note" })),
    (element, line) => {
      setText(element.children[0], line.text);
      setBar(element.children[1], line.value / most, `${line.text}: ${format(line.value)}`);
      setText(element.children[2], format(line.value));
      setText(element.children[3], line.note);
    });
}

function createGeneration() {
  return h("li", {}, h("span", { class: "when" }), h("span", { class: "dot", "aria-hidden": "true" }), h("div", {}, h("div", { class: "reason" }), h("div", { class: "costs" }), h("div", { class: "because" })));
}

function updateGeneration(item, found, before, newest) {
  const [when, , content] = item.children;
  item.classList.toggle("now", found.generation === newest);
  setText(when, `batch ${whole(found.batch)}`);
  const [reason, ...because] = found.reason.split(": ");
  setText(content.children[0], reason);
  setText(content.children[2], because.join(": "));
  const micros = (value) => (value === null || value === undefined ? "–" : `${value.toFixed(value < 10 ? 2 : 1)} µs`);
  const entries = [["cost", short(found.cost), ""]];
  if (found.predicted_old) entries.push(["promised", `${short(found.predicted_old)} → ${short(found.predicted_new)} (${change(found.predicted_old, found.predicted_new)})`, ""]);
  const isComparable = found.measured_before && found.measured && found.batches >= SETTLED && (before?.batches ?? SETTLED) >= SETTLED;
  if (isComparable) {
    entries.push(["measured", `${micros(found.measured_before)} → ${micros(found.measured)} per row (${change(found.measured_before, found.measured)})`, found.measured < found.measured_before ? "better" : "worse"]);
  } else if (found.measured) entries.push(["measured", `${micros(found.measured)} per row`, ""]);
  entries.push(["", `${plural(found.queries.length, "query")}, ${plural(found.stores, "store")}, ${plural(found.workers, "worker")}, ${plural(found.batches, "batch")}`, ""]);
  keyed(content.children[1], entries, ([name]) => name, ([name]) => h("span", {}, name ? `${name} ` : "", h("b")), (entry, [, value, kind]) => {
    setText(entry.lastElementChild, value);
    entry.lastElementChild.className = kind;
  });
}

function change(before, after) {
  const share = after / before - 1;
  return `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
}
