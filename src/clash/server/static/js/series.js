// The last batches, fetched piece by piece while a chart is looked at.

import { call } from "./api.js";

const MAX = 900;

export const series = { batches: [] };
let busy = false;

/** Fetches the batches since the last call; whether there are more than before. */
export async function refreshSeries() {
  if (busy) return false;
  busy = true;
  try {
    const last = series.batches.at(-1)?.batch ?? -1;
    const found = await call("GET", `api/history?after=${last}`);
    if (found.length && found[0].batch <= last) series.batches = []; // another run at this address
    for (const entry of found) series.batches.push({ ...entry, time: Date.parse(entry.timestamp) / 1000 });
    series.batches.splice(0, Math.max(0, series.batches.length - MAX));
    return found.length > 0;
  } catch {
    return false;
  } finally {
    busy = false;
  }
}

export function clearSeries() {
  series.batches = [];
}
