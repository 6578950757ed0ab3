// Numbers as people read them.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function whole(value) {
  return value === null || value === undefined ? "–" : WHOLE.format(value);
}

/** `412`, `1.2k`, `3.4M`: three digits at most. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit * 0.9995) {
      const scaled = value / limit;
      return `${scaled.toFixed(Math.abs(scaled) >= 99.95 ? 0 : 1).replace(/\.0$/, "")}${unit}`;
    }
  }
  if (size === 0) return "0";
  if (size >= 99.5) return value.toFixed(0);
  if (size >= 9.95) return value.toFixed(0);
  return size >= 0.05 ? value.toFixed(1).replace(/\.0$/, "") : "<0.1";
}

export const rate = (value) => (value === null || value === undefined ? "–" : `${short(value)}/s`);

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${unit === 0 || value >= 99.5 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0) return `-${seconds(-value)}`;
  if (value < 0.9995) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const [minutes, hours, days] = [Math.floor(value / 60), Math.floor(value / 3600), Math.floor(value / 86400)];
  if (hours < 1) return value % 60 < 1 ? `${minutes} min` : `${minutes} min ${Math.floor(value % 60)} s`;
  if (days < 2) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${days} d ${hours % 24} h`;
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  return value === 0 ? "0 %" : value >= 9.95 ? `${value.toFixed(0)} %` : value >= 0.1 ? `${value.toFixed(1)} %` : "<0.1 %";
}

export function times(value) {
  return value === null || value === undefined || !Number.isFinite(value) ? "–" : `${value.toFixed(value < 10 ? 2 : 0)}×`;
}

/** An ISO time as the clock shows it here, or as it is where it cannot be read. */
export function clock(text) {
  if (!text) return "–";
  const at = new Date(text);
  return Number.isNaN(at.valueOf()) ? text : at.toLocaleTimeString("en-GB");
}

/** Event time in UTC, as the streams have it. */
export function eventTime(text) {
  if (!text) return "–";
  const at = new Date(text);
  return Number.isNaN(at.valueOf()) ? text : at.toISOString().replace("T", " ").slice(0, 19);
}

export function backlog(units) {
  if (!units) return "–";
  return Object.entries(units).map(([unit, number]) => `${whole(number)} ${number === 1 ? unit.replace(/s$/, "") : unit}`).join(", ");
}

export const plural = (count, word) => `${whole(count)} ${count === 1 ? word : word.endsWith("y") ? `${word.slice(0, -1)}ies` : word.endsWith("ch") ? `${word}es` : `${word}s`}`;

export function names(list, limit = 4) {
  if (list.length > limit) return `${list.slice(0, limit - 1).join(", ")} and ${list.length - limit + 1} more`;
  return list.length > 1 ? `${list.slice(0, -1).join(", ")} and ${list[list.length - 1]}` : list.join("");
}
