// What nodes of the picture look like.

import { s } from "./dom.js";
import { fit } from "./graph.js";

export const CARDS = new Set(["stream", "mir", "query"]);

/** Draws into the group of a node. `isSmall`: where there are many. */
export function drawNode(group, node, isSmall) {
  group.append(s("rect", { class: "box", width: node.width, height: node.height, rx: CARDS.has(node.kind) ? 8 : node.height / 2 }));
  if (node.kind === "stream" || node.kind === "mir") drawStore(group, node, isSmall);
  else if (node.kind === "step") drawStep(group, node);
  else if (node.kind === "query") drawQuery(group, node);
  else drawEnd(group, node);
  group.append(s("title"));
}

function drawStore(group, node, isSmall) {
  if (node.kind === "mir") group.append(s("rect", { class: "inner", x: 3, y: 3, width: node.width - 6, height: node.height - 6, rx: 6 }));
  const layouts = layoutsOf(node);
  const swatch = s("rect", { class: "swatch", x: 10, y: 10, width: 9, height: 9, rx: 2 });
  swatch.style.setProperty("--hue", node.hue ?? 0);
  group.append(
    swatch,
    s("text", { class: "name", x: 24, y: 19 }, fit(node.name, node.width - (node.kind === "mir" ? 34 : isSmall ? 62 : 86), "600 12px")[0]),
    s("text", { class: "figure rate-in", x: node.width - 10, y: 19, "text-anchor": "end" }),
    s("text", { class: "small held", x: 10, y: 35 }),
    ...(isSmall ? [] : [s("text", { class: "small", x: 10, y: 50 }, fit(layouts, node.width - 20, "11px")[0])]),
    s("rect", { class: "track", x: 10, y: node.height - 11, width: node.width - 20, height: 4, rx: 2 }),
    s("rect", { class: "window", x: 10, y: node.height - 11, width: 0, height: 4, rx: 2 }),
  );
}

function drawStep(group, node) {
  const swatch = s("rect", { class: "swatch", x: 10, y: (node.height - 9) / 2, width: 9, height: 9, rx: 2 });
  swatch.style.setProperty("--hue", node.hue ?? 0);
  group.append(swatch, s("text", { class: "name", x: 23, y: node.height / 2 + 4 }, node.label));
  if (node.users.length > 1) {
    group.classList.add("shared");
    group.append(
      s("rect", { class: "badge", x: node.width - 30, y: (node.height - 16) / 2, width: 26, height: 16, rx: 8 }),
      s("text", { class: "badge-text", x: node.width - 17, y: node.height / 2 + 4, "text-anchor": "middle" }, `×${node.users.length}`),
    );
  }
}

/** The end of a path, where trees are drawn one by one. */
function drawEnd(group, node) {
  if (node.kind === "fed") {
    const swatch = s("rect", { class: "swatch", x: 9, y: 5, width: 8, height: 8, rx: 2 });
    swatch.style.setProperty("--hue", node.hue ?? 0);
    group.append(swatch);
  }
  group.append(s("text", { class: "name", x: node.kind === "fed" ? 20 : 8, y: 13 }, node.label));
}

function drawQuery(group, node) {
  group.append(
    s("text", { class: "name", x: 12, y: 17 }, fit(node.name, node.width - 74, "600 12px")[0]),
    s("text", { class: "figure", x: node.width - 10, y: 17, "text-anchor": "end" }),
    s("text", { class: "small", x: 12, y: 32 }, fit(node.query.streams.join(" ⋈ "), node.width - 24, "11px")[0]),
  );
}

export const layoutsOf = (node) => [...new Set(node.stores.flatMap((store) => store.layouts))].join(" and ");
