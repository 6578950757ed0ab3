// The page: the head, the tabs, and what is said when the run has ended or cannot be reached.

import { h, keyed, setAttributes, setText } from "./dom.js";
import { bytes, rate, whole } from "./format.js";
import { askForQuery, askForWorkers } from "./forms.js";
import { connect, live, on } from "./live.js";
import { batchesView } from "./view_batches.js";
import { plansView } from "./view_plans.js";
import { queriesView } from "./view_queries.js";
import { stateView } from "./view_state.js";
import { topologyView } from "./view_topology.js";

const VIEWS = [
  ["topology", "Topology", topologyView],
  ["queries", "Queries", queriesView],
  ["batches", "Batches", batchesView],
  ["state", "State", stateView],
  ["plans", "Plans", plansView],
];
const element = (id) => document.getElementById(id);
const views = new Map();
let current = null;

// ---- themes ----------------------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");

function chosenTheme() {
  return localStorage.getItem("clash-theme") ?? (dark.matches ? "dark" : "light");
}

function applyTheme() {
  document.documentElement.dataset.theme = chosenTheme();
  dispatchEvent(new Event("themechange"));
}

element("theme").addEventListener("click", () => {
  localStorage.setItem("clash-theme", chosenTheme() === "dark" ? "light" : "dark");
  applyTheme();
});
dark.addEventListener("change", applyTheme);

// ---- tabs ------------------------------------------------------------------------------------------------------------

function show() {
  const wanted = location.hash.slice(1);
  const [name, , create] = VIEWS.find(([view]) => view === wanted) ?? VIEWS[0];
  for (const link of element("tabs").children) setAttributes(link, { "aria-current": link.dataset.view === name ? "page" : null });
  if (current?.name === name) return;
  if (!views.has(name)) views.set(name, create());
  current?.view.hide?.();
  current = { name, view: views.get(name) };
  element("main").replaceChildren(current.view.element);
  current.view.show?.();
}

element("tabs").append(...VIEWS.map(([name, title]) => h("a", { href: `#${name}`, dataset: { view: name } }, title)));
addEventListener("hashchange", show);

// ---- the head --------------------------------------------------------------------------------------------------------

on(["status"], () => {
  const { status } = live;
  setText(element("job"), status.name ?? "");
  document.title = status.name ? `${status.name} · CLASH` : "CLASH";
  const figures = [
    ["rows in", rate(status.input_rate)],
    ["results out", rate(status.result_rate)],
    ["held", bytes(status.bytes)],
    ["batch", status.batch < 0 ? "–" : whole(status.batch)],
    ["workers", whole(status.workers)],
  ];
  keyed(
    element("figures"),
    figures,
    ([name]) => name,
    ([name]) => h("div", {}, h("dt", {}, name), h("dd")),
    (entry, [, value]) => setText(entry.lastElementChild, value),
  );
});

on(["status", "connection", "ended"], () => {
  const { connection, ended, status } = live;
  const failed = ended?.error ?? status?.error ?? null;
  const isOver = ended !== null || status?.active === false;
  const [text, kind] =
    connection === "refused" ? ["no access", "failed"]
    : isOver ? (failed ? ["failed", "failed"] : ["ended", "ended"])
    : connection === "lost" ? ["connection lost", "lost"]
    : connection === "busy" ? ["too busy", "lost"]
    : status === undefined ? ["connecting", ""]
    : status.pending.length ? ["changing", "changing"]
    : ["running", "running"];
  setText(element("state"), text);
  setAttributes(element("state"), { class: `pill ${kind}`, title: status?.pending?.length ? `waits for the next epoch: ${status.pending.join(", ")}` : null });
  const notice = element("notice");
  const parts =
    connection === "refused" ? ["This page has lost its access.", "Open the address that the run has printed."]
    : failed ? [`The run has failed: ${failed.what}`, [failed.detail, failed.hint].filter(Boolean).join(" · ")]
    : isOver ? ["The run has ended.", "What you see is its last state."]
    : connection === "lost" ? ["The connection is lost.", "What you see may be old. Trying again …"]
    : connection === "busy" ? [`The run is there, but refuses this page: ${live.refusal.what}.`, [live.refusal.detail, live.refusal.hint, "Trying again …"].filter(Boolean).join(" · ")]
    : null;
  notice.hidden = parts === null;
  notice.className = failed || connection === "refused" ? "failed" : "";
  if (parts !== null && notice.textContent !== parts.join("")) notice.replaceChildren(parts[0], h("span", {}, parts[1]));
  const isUsable = connection === "open" && !isOver;
  element("add").disabled = !isUsable;
  element("rescale").disabled = !isUsable;
});

element("add").addEventListener("click", () => askForQuery(null));
element("rescale").addEventListener("click", () => askForWorkers());

addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const number = Number(event.key);
  if (number >= 1 && number <= VIEWS.length) location.hash = VIEWS[number - 1][0];
  else if (event.key === "a" && !element("add").disabled) {
    event.preventDefault();
    askForQuery(null);
  }
});

applyTheme();
show();
connect();
