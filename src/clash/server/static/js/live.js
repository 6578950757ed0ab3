// The state of the page: the newest snapshot of each kind, how the connection is, and what is picked.

const EVENTS = ["status", "topology", "flows", "queries", "batch", "generations", "quality"];
const AFTER_END = 5_000; // milliseconds after which a page looks whether there is a new run
const SILENCE = 40_000; // milliseconds without any sign of life; the server sends one every 15 seconds

export const live = { connection: "connecting", refusal: null, ended: null, pick: null };
const listeners = [];

/** Calls `react` when one of these parts of the state has changed. */
export function on(parts, react) {
  listeners.push([new Set(parts), react]);
}

export function change(part, value) {
  live[part] = value;
  for (const [parts, react] of listeners) if (parts.has(part)) react(part);
}

/** `{kind, id}` of a query, a store, a stream or a step; null for nothing. */
export function pick(kind, id) {
  const same = live.pick !== null && live.pick.kind === kind && live.pick.id === id;
  change("pick", kind === null || same ? null : { kind, id });
}

let source = null;
let lastSign = 0;
let failures = 0;
let timer = null;

export function connect() {
  clearTimeout(timer);
  source?.close();
  source = new EventSource("api/events");
  const sign = () => {
    lastSign = Date.now();
    failures = 0;
    if (live.connection !== "open") change("connection", "open");
  };
  lastSign = Date.now();
  source.onopen = sign;
  for (const name of EVENTS) {
    source.addEventListener(name, (event) => {
      sign();
      if (live.ended !== null && name === "status" && JSON.parse(event.data).active) change("ended", null);
      change(name, JSON.parse(event.data));
    });
  }
  source.addEventListener("ended", (event) => {
    sign();
    change("ended", JSON.parse(event.data));
  });
  source.onerror = () => {
    source.close();
    failures += 1;
    if (live.connection !== "busy") change("connection", "lost");
    retry();
  };
}

/** Tries again by itself, soon at first. Why the server refuses is asked, because an event stream does not say. */
async function retry() {
  const wait = live.ended === null ? Math.min(10_000, 500 * 2 ** Math.min(failures, 5)) : AFTER_END;
  timer = setTimeout(connect, wait);
  const question = new AbortController();
  try {
    const answer = await fetch("api/events", { signal: question.signal });
    if (answer.status === 401 || answer.status === 403) {
      clearTimeout(timer);
      change("connection", "refused");
    } else if (!answer.ok && live.connection !== "open") {
      live.refusal = await answer.json().catch(() => ({ what: `the server answers ${answer.status}` }));
      change("connection", "busy");
    }
  } catch {
    if (live.connection === "busy") change("connection", "lost"); // not reachable; the timer tries again
  } finally {
    question.abort();
  }
}

setInterval(() => {
  if (live.connection === "open" && live.ended === null && Date.now() - lastSign > SILENCE) source.onerror();
}, 5000);

const isAway = () => ["lost", "busy", "refused"].includes(live.connection);
addEventListener("online", () => isAway() && connect());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && isAway() && connect());
