// Forms: add or replace a query with its plan beside the running ones, remove one, change the number of workers.

import { call, query as address } from "./api.js";
import { h, setText } from "./dom.js";
import { eventTime, names, percent, plural, short } from "./format.js";
import { live } from "./live.js";

const PAUSE = 350; // milliseconds after the last key, before the text is checked

export function problemBox(error) {
  return h("div", { class: "problem", role: "alert" }, h("b", {}, error.what ?? String(error.message ?? error)), error.detail ? h("div", {}, error.detail) : null, error.hint ? h("div", { class: "hint" }, error.hint) : null);
}

function toast(text) {
  const box = h("div", { class: "toast", role: "status" }, text);
  document.body.append(box);
  setTimeout(() => box.remove(), 6000);
}

/** Opens a dialog; `send` is called with the form, and the dialog is closed unless it fails. */
function openDialog(title, content, action, send, kind = "primary") {
  const problem = h("div", { class: "refusal" });
  const submit = h("button", { type: "submit", class: kind }, action);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const form = h("form", {}, h("h2", { id: "dialog-title" }, title), ...content, problem, h("footer", {}, cancel, submit));
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("input", () => problem.replaceChildren());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.replaceChildren();
    try {
      toast(await send());
      dialog.close();
    } catch (error) {
      problem.replaceChildren(problemBox(error));
    } finally {
      submit.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return { dialog, submit };
}

const later = "from the next epoch on";

/** To add a query or, with one, to replace it. */
export function askForQuery(query) {
  const name = h("input", { required: true, pattern: "[A-Za-z_][A-Za-z0-9_]*", maxlength: 100, value: query?.name ?? "", autocomplete: "off", spellcheck: "false", disabled: query !== null });
  const text = h("textarea", { class: "code", required: true, spellcheck: "false", placeholder: example(), value: query?.sql ?? "" });
  const history = h("input", { type: "checkbox", checked: true });
  const sink = h("select", {}, [["", "under the checkpoint"], ["parquet", "Parquet files in a folder"], ["kafka", "a Kafka topic"], ["postgres", "a table of PostgreSQL"]].map(([value, label]) => h("option", { value }, label)));
  const place = h("input", { disabled: true, required: true, autocomplete: "off", "aria-label": "The folder, topic or table", placeholder: "folder, topic or table" });
  const mode = h("select", {}, [["", "as it follows from the query"], ["complete", "complete"], ["update", "update"], ["append", "append"]].map(([value, label]) => h("option", { value }, label)));
  sink.addEventListener("change", () => { place.disabled = sink.value === ""; });
  const preview = h("div", { class: "preview", "aria-live": "polite" }, h("span", { class: "muted" }, "Type a query to see what it would cost beside the others."));
  let timer = null;
  let running = null;
  const options = () => (mode.value ? { mode: mode.value } : {});

  async function check() {
    running?.abort();
    const sql = text.value.trim();
    if (sql === "") return;
    running = new AbortController();
    preview.classList.add("busy");
    try {
      showPlan(preview, await call("POST", "api/what-if", { sql, ...options(), ...(query ? { replaces: query.name } : {}) }, running.signal), query);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 503) return checkSoon();
      preview.replaceChildren(problemBox(error));
    }
    preview.classList.remove("busy");
  }

  const checkSoon = () => { clearTimeout(timer); timer = setTimeout(check, PAUSE); };
  text.addEventListener("input", checkSoon);
  mode.addEventListener("change", checkSoon);
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) text.form.requestSubmit(); });
  const send = async () => {
    const body = { sql: text.value, history: history.checked, ...options(), ...(sink.value ? { sink: { [sink.value]: place.value } } : {}) };
    if (query === null) await call("POST", "api/queries", { name: name.value.trim(), ...body });
    else await call("PUT", address(query.name), body);
    return query === null ? `${name.value.trim()} is answered ${later}.` : `${query.name} is replaced ${later}.`;
  };
  const fields = [
    h("label", {}, "Name", name),
    h("label", {}, "SQL", text),
    preview,
    h("label", { class: "inline" }, history, "also join rows that arrived before, as far as they are stored"),
    h("details", {}, h("summary", {}, "Where results go, and output mode"),
      h("label", {}, "Results go to", h("span", { class: "pair" }, sink, place)),
      h("label", {}, "Output mode, of a query with aggregates", mode)),
  ];
  openDialog(query === null ? "Add a query" : `Replace ${query.name}`, fields, query === null ? "Add query" : "Replace query", send);
  (query === null ? name : text).focus();
}

function example() {
  const [first, second] = live.topology?.streams ?? [];
  const key = first?.columns.map(([column]) => column).find((column) => second?.columns.some(([other]) => other === column && column !== first.time));
  return first && second && key ? `SELECT …\nFROM ${first.name} JOIN ${second.name} USING (${key})` : "SELECT …\nFROM … JOIN … USING (…)";
}

/** What the planner says of a query: its cost beside the others, what it shares, what it would store, since when it is complete. */
function showPlan(place, plan, replaced) {
  const saved = plan.alone > 0 ? 1 - plan.marginal / plan.alone : 0;
  const shared = plan.steps.filter((step) => step.shared_with.length > 0).length;
  const held = plan.stores.filter((store) => !store.is_new && store.shared_with.length > 0).map((store) => store.name);
  const stored = [
    ...plan.stores.filter((store) => store.is_new).map((store) => `${store.name}, about ${short(store.rows)} rows`),
    ...plan.stores.filter((store) => !store.is_new && store.new_columns.length).map((store) => `${names(store.new_columns)} of ${store.name}`),
  ];
  const facts = [
    ["It adds", `${short(plan.marginal)} to a cost of ${short(plan.cost)}${replaced ? ", without the one that it replaces" : ""}`],
    ["On its own", `${short(plan.alone)}${saved > 0.005 ? `: sharing saves ${percent(saved)}` : ""}`],
    ["Shares", `${shared} of ${plural(plan.steps.length, "probe step")}${held.length ? `, and the rows of ${names(held)}` : ""}`],
    ["Has to store", stored.length ? stored.join("; ") : "nothing that is not stored already"],
    ["Complete", complete(plan.completeness)],
    ["Columns", plan.columns.map((column) => column.name).join(", ")],
  ];
  place.replaceChildren(h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function complete({ is_complete: isComplete, needed_watermarks: needed }) {
  if (isComplete) return "from its first batch on";
  const times = Object.entries(needed);
  if (times.some(([, time]) => time === null)) return "cannot be known: a stream has no watermark, or a window no end";
  return times.map(([stream, time]) => `when ${stream} has passed ${eventTime(time)}`).join(", ");
}

export function confirmRemoval(name) {
  const content = [h("p", {}, `${name} ends with the next epoch. Its results stay where they are; what is stored for it alone is dropped.`)];
  openDialog(`Remove ${name}?`, content, "Remove query", async () => {
    await call("DELETE", address(name));
    return `${name} ends with the next epoch.`;
  }, "danger");
}

export function askForWorkers() {
  const workers = h("input", { type: "number", min: 1, max: 1024, step: 1, required: true, value: live.status?.workers ?? 1 });
  const note = h("p", { class: "muted" });
  setText(note, "The number of partitions of the stores, and of tasks per round. Nothing is moved: the new workers read what the old ones have stored.");
  openDialog("Change the number of workers", [h("label", {}, "Workers", workers), note], "Change", async () => {
    await call("POST", "api/workers", { workers: Number(workers.value) });
    return `${plural(Number(workers.value), "worker")} ${later}.`;
  });
  workers.select();
}
