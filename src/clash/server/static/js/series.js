// The last batches, fetched piece by piece while a chart is looked at.

import { call } from "./api.js";
import { live, on } from "./live.js";

const MAX = 900;

export const series = { batches: [] };
let busy = false;

/** Fetches the batches since the last call, and the last one again: Spark reports its times a moment after the batch. */
export async function refreshSeries() {
  if (busy) return;
  busy = true;
  try {
    const found = await call("GET", `api/history?after=${series.batches.at(-2)?.batch ?? -1}`);
    const first = found[0]?.batch ?? Infinity;
    series.batches = series.batches.filter((entry) => entry.batch < first);
    for (const entry of found) series.batches.push({ ...entry, time: Date.parse(entry.timestamp) / 1000 });
    series.batches.splice(0, Math.max(0, series.batches.length - MAX));
  } catch {
    // the page says that the run cannot be reached
  } finally {
    busy = false;
  }
}

// another run at this address, whose batches begin again
on(["status"], () => { if (live.status.batch < (series.batches.at(-1)?.batch ?? -1)) series.batches = []; });
