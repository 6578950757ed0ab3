// The topology as nodes and edges with coordinates: streams on the left, probe steps in the middle, queries on the right.

import { Graph, layout } from "../vendor/dagre.js";

const SIZES = { stream: [190, 68], mir: [200, 68], query: [186, 40], step: 22 };
const SMALL_SIZES = { ...SIZES, stream: [136, 52], mir: [146, 52], step: 20 }; // where there are many: without the layout
const END_HEIGHT = 18;
const MAX_STEP = 190; // pixels of a name in a step
const FAN = 120; // pixels in which lines go from the trees to the column of queries and intermediate results
const GAP = 16;
const TREE_GAP = 9; // between trees one below the other
const NARROW_GAP = 32; // room for a rate

const pen = document.createElement("canvas").getContext("2d");
const family = () => getComputedStyle(document.body).fontFamily;

/** A text that fits into a width, with its own width. */
export function fit(text, width, font = "500 12px") {
  pen.font = `${font} ${family()}`;
  if (pen.measureText(text).width <= width) return [text, pen.measureText(text).width];
  let length = text.length;
  while (length > 1 && pen.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  const short = `${text.slice(0, length).trimEnd()}…`;
  return [short, pen.measureText(short).width];
}

export const nodeId = (kind, id) => `${kind}:${id}`;

/** Nodes and edges of a topology, without coordinates. `isForest`: every probe tree by itself, with the names of queries and intermediate
 * results at its ends; lines to one node for each of them would cross each other where they are many. */
export function buildGraph(topology, isForest = false) {
  const nodes = new Map();
  const edges = [];
  const stores = new Map(topology.stores.map((store) => [store.id, store]));
  const queries = new Map(topology.queries.map((query) => [query.name, query]));
  const hue = hues(topology.stores);
  const steps = new Map(topology.steps.map((step) => [step.id, step]));
  const origins = new Map(topology.origins.map((origin) => [origin.id, origin]));
  for (const stream of topology.streams) {
    const base = topology.stores.filter((store) => store.stream === stream.name);
    const users = topology.queries.filter((query) => query.streams.includes(stream.name)).map((query) => query.name);
    nodes.set(nodeId("stream", stream.name), { kind: "stream", id: stream.name, name: stream.name, stream, stores: base, users, hue: hue.get(base[0]?.id) });
  }
  for (const store of topology.stores) {
    if (store.stream === null) {
      nodes.set(nodeId("mir", store.id), { kind: "mir", id: store.id, name: store.name, stores: [store], users: store.users, hue: hue.get(store.id) });
    }
  }
  for (const step of topology.steps) {
    const store = stores.get(step.store);
    nodes.set(nodeId("step", step.id), { kind: "step", id: step.id, name: store.name, step, store, users: step.users, hue: hue.get(step.store), feeds: step.feeds });
  }
  for (const query of isForest ? [] : topology.queries) {
    nodes.set(nodeId("query", query.name), { kind: "query", id: query.name, name: query.name, query, users: [query.name] });
  }
  const start = (parent) => (steps.has(parent) ? nodeId("step", parent) : nodeId("stream", origins.get(parent).stream));
  for (const step of topology.steps) {
    edges.push({
      id: `probe:${step.id}`, kind: "probe", from: start(step.parent), to: nodeId("step", step.id), users: step.users, step, travels: step.travels,
      backfills: origins.get(step.parent)?.backfills ?? null,
    });
    for (const fed of step.feeds) {
      const store = stores.get(fed);
      const to = isForest ? nodeId("fed", `${step.id}:${fed}`) : nodeId("mir", fed);
      if (isForest) nodes.set(to, { kind: "fed", id: fed, name: store.name, users: store.users, hue: hue.get(fed) });
      edges.push({ id: `feed:${step.id}:${fed}`, kind: "feed", from: nodeId("step", step.id), to, users: store.users, step });
    }
    for (const name of step.emits) {
      if (!queries.has(name)) continue;
      const to = isForest ? nodeId("result", `${step.id}:${name}`) : nodeId("query", name);
      if (isForest) nodes.set(to, { kind: "result", id: name, name, users: [name] });
      edges.push({ id: `emit:${step.id}:${name}`, kind: "emit", from: nodeId("step", step.id), to, users: [name], step });
    }
  }
  for (const origin of topology.origins) {
    for (const name of origin.emits) {
      const to = isForest ? nodeId("result", `${origin.id}:${name}`) : nodeId("query", name);
      if (isForest) nodes.set(to, { kind: "result", id: name, name, users: [name] });
      edges.push({ id: `pass:${origin.id}:${name}`, kind: "emit", from: nodeId("stream", origin.stream), to, users: [name], stream: origin.stream });
    }
  }
  return { nodes, edges, stores, steps, origins, isForest };
}

/** A hue per store; steps of the golden angle keep consecutive ones apart. */
function hues(stores) {
  const shared = new Map();
  let next = 0;
  return new Map(stores.map((store) => {
    const key = store.stream ?? store.id;
    if (!shared.has(key)) { shared.set(key, Math.round(250 + next * 137.5) % 360); next += 1; }
    return [store.id, shared.get(key)];
  }));
}

/** The part of a graph that works for a pick, or all of it. */
export function subgraph(graph, keep) {
  const nodes = new Map([...graph.nodes].filter(([id, node]) => keep(node, id)));
  return { ...graph, nodes, edges: graph.edges.filter((edge) => nodes.has(edge.from) && nodes.has(edge.to)) };
}

/** Sets x, y, width and height of all nodes, and points and the place of the label of all edges; returns the size of the whole.
 * `width`, `height`: of the place. */
export function layOut(graph, { width, height }) {
  for (const node of graph.nodes.values()) measure(node, graph.isForest ? SMALL_SIZES : SIZES);
  for (const edge of graph.edges) edge.label = null;
  const parts = trees(graph);
  const box = graph.isForest ? layOutColumns(graph, parts, width, height) : layOutFan(graph, parts);
  for (const edge of graph.edges) edge.label ??= beforeNode(graph.nodes.get(edge.to));
  return box;
}

const beforeNode = (node) => ({ x: node.x - node.width / 2 - 6, y: node.y });

function measure(node, sizes) {
  if (Array.isArray(sizes[node.kind])) {
    [node.width, node.height] = sizes[node.kind];
    return;
  }
  const [label, width] = fit(node.name, MAX_STEP, node.kind === "step" ? "500 12px" : "550 11px");
  const room = node.kind === "step" ? 32 + (node.users.length > 1 ? 26 : 0) : node.kind === "fed" ? 28 : 16;
  Object.assign(node, { label, width: width + room, height: sizes[node.kind] ?? END_HEIGHT });
}

/** Coordinates of one tree in as little width as it needs: every node begins behind its parent, every end has a row of its own. */
function layOutNarrow({ nodes, edges, root }) {
  const children = new Map();
  for (const edge of edges) children.set(edge.from, [...(children.get(edge.from) ?? []), edge.to]);
  let bottom = 0;
  const place = (id, left) => {
    const node = nodes.get(id);
    const below = children.get(id) ?? [];
    const top = bottom;
    node.x = left + node.width / 2;
    for (const child of below) place(child, left + node.width + NARROW_GAP);
    bottom = Math.max(bottom, top + node.height + 3);
    node.y = below.length ? (nodes.get(below[0]).y + nodes.get(below.at(-1)).y) / 2 : top + node.height / 2;
  };
  place(root, 0);
  for (const edge of edges) edge.points = [];
  return bounds(nodes.values());
}

/** Coordinates of one tree. `ports`: edges that leave it; each ends at a point in its last column, on a row of its own. */
function layOutTree({ nodes, edges, ports }, options) {
  const drawn = new Graph().setGraph({ rankdir: "LR", ranker: "network-simplex", ...options }).setDefaultEdgeLabel(() => ({}));
  for (const [id, node] of nodes) drawn.setNode(id, { width: node.width, height: node.height });
  for (const edge of edges) drawn.setEdge(edge.from, edge.to, { weight: 6, minlen: 1 });
  drawn.setNode("last", { width: 1, height: 1 }); // is not drawn
  for (const edge of ports) {
    drawn.setNode(edge.id, { width: 1, height: 12 });
    drawn.setEdge(edge.from, edge.id, { weight: 1, minlen: 1 });
    drawn.setEdge(edge.id, "last", { weight: 60, minlen: 1 });
  }
  layout(drawn);
  for (const [id, node] of nodes) ({ x: node.x, y: node.y } = drawn.node(id));
  for (const edge of edges) edge.points = drawn.edge(edge.from, edge.to).points;
  for (const edge of ports) edge.points = [...drawn.edge(edge.from, edge.id).points.slice(0, -1), { x: drawn.node(edge.id).x, y: drawn.node(edge.id).y }];
  return bounds([...nodes.values(), ...ports.map((edge) => ({ ...edge.points.at(-1), width: 1, height: 12 }))]);
}

function bounds(nodes) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const node of nodes) {
    left = Math.min(left, node.x - node.width / 2);
    right = Math.max(right, node.x + node.width / 2);
    top = Math.min(top, node.y - node.height / 2);
    bottom = Math.max(bottom, node.y + node.height / 2);
  }
  return left === Infinity ? { left: 0, top: 0, width: 1, height: 1 } : { left, top, width: right - left, height: bottom - top };
}

/** The trees one below the other; what they answer and fill in a column beside them, near the lines that lead there. */
function layOutFan(graph, parts) {
  let [top, right] = [0, 0];
  for (const part of parts) {
    const box = layOutTree(part, { nodesep: 5, ranksep: 56, edgesep: 5 });
    move(part, -box.left, top - box.top);
    top += box.height + GAP;
    right = Math.max(right, box.width);
  }
  const rows = new Map();
  for (const edge of graph.edges.filter((found) => isEnd(graph.nodes.get(found.to)))) {
    const { y } = edge.points.at(-1);
    edge.label = { x: right, y };
    edge.points.push({ x: right, y }, { x: right + FAN, y });
    rows.set(edge.to, [...(rows.get(edge.to) ?? []), y]);
  }
  const mean = (id) => (rows.has(id) ? rows.get(id).reduce((sum, y) => sum + y, 0) / rows.get(id).length : Infinity);
  const ends = [...graph.nodes].filter(([, node]) => isEnd(node)).sort(([a], [b]) => mean(a) - mean(b)).map(([, node]) => node);
  const heights = ends.reduce((sum, node) => sum + node.height, 0);
  const gap = Math.max(8, Math.min(56, (top - GAP - heights) / Math.max(1, ends.length)));
  let y = Math.max(0, (top - GAP - heights - gap * (ends.length - 1)) / 2);
  for (const node of ends) {
    Object.assign(node, { x: right + (rows.size ? FAN : 0) + node.width / 2, y: y + node.height / 2 });
    y += node.height + gap;
  }
  return bounds(graph.nodes.values());
}

const isEnd = (node) => node.kind === "query" || node.kind === "mir";

/** The trees one below the other, in as many columns as make them largest; intermediate results come last. */
function layOutColumns(graph, trees, width, height) {
  const parts = trees.map((part) => ({ ...part, box: layOutNarrow(part) }));
  const cards = [...graph.nodes].filter(([, node]) => node.kind === "mir");
  if (cards.length) {
    const perRow = Math.max(1, Math.floor((1.1 * Math.max(...parts.map((part) => part.box.width), 1) + GAP) / (SMALL_SIZES.mir[0] + GAP)));
    cards.forEach(([, node], at) => Object.assign(node, { x: (at % perRow) * (node.width + GAP), y: Math.floor(at / perRow) * (node.height + GAP) }));
    parts.push({ nodes: new Map(cards), edges: [], ports: [], box: bounds(cards.map(([, node]) => node)) });
  }
  let best = null;
  for (let count = 1; count <= Math.min(5, parts.length); count += 1) {
    const columns = inColumns(parts, count);
    const size = { width: columns.reduce((sum, column) => sum + column.width + 1.5 * GAP, -1.5 * GAP), height: Math.max(...columns.map((column) => column.height)) };
    const scale = Math.min(width / size.width, height / size.height);
    if (best === null || scale > best.scale) best = { columns, scale };
  }
  let left = 0;
  for (const column of best?.columns ?? []) {
    let top = 0;
    for (const part of column.parts) {
      move(part, left - part.box.left, top - part.box.top);
      top += part.box.height + TREE_GAP;
    }
    left += column.width + 1.5 * GAP;
  }
  return bounds(graph.nodes.values());
}

/** A tree per stream: its nodes, the edges between them, and those that lead to nodes that trees share. */
function trees(graph) {
  const children = new Map();
  for (const edge of graph.edges) children.set(edge.from, [...(children.get(edge.from) ?? []), edge]);
  return [...graph.nodes].filter(([, node]) => node.kind === "stream").map(([root, node]) => {
    const part = { root, nodes: new Map([[root, node]]), edges: [], ports: [] };
    for (const waiting = [root]; waiting.length; ) {
      for (const edge of children.get(waiting.pop()) ?? []) {
        if (isEnd(graph.nodes.get(edge.to))) {
          part.ports.push(edge);
          continue;
        }
        part.edges.push(edge);
        part.nodes.set(edge.to, graph.nodes.get(edge.to));
        waiting.push(edge.to);
      }
    }
    return part;
  });
}

/** In their order, at most so many columns, the highest of them as low as can be. */
function inColumns(parts, count) {
  let highest = Math.max(parts.reduce((sum, part) => sum + part.box.height + TREE_GAP, 0) / count, ...parts.map((part) => part.box.height + TREE_GAP));
  for (;;) {
    const columns = [];
    for (const part of parts) {
      const needed = part.box.height + TREE_GAP;
      if (columns.length === 0 || columns.at(-1).height + needed > highest) columns.push({ parts: [], width: 0, height: 0 });
      const column = columns.at(-1);
      column.parts.push(part);
      column.width = Math.max(column.width, part.box.width);
      column.height += needed;
    }
    if (columns.length <= count) return columns;
    highest *= 1.01;
  }
}

function move(part, x, y) {
  for (const node of part.nodes.values()) { node.x += x; node.y += y; }
  for (const edge of [...part.edges, ...part.ports]) edge.points = edge.points.map((point) => ({ x: point.x + x, y: point.y + y }));
}

/** A curve from the right side of one box to the left side of another, level where it passes a column. */
export function curve(from, to, points) {
  const start = [from.x + from.width / 2, from.y];
  const end = [to.x - to.width / 2, to.y];
  const between = points.slice(1, -1).map(({ x, y }) => [x, y]).filter(([x]) => x > start[0] + 8 && x < end[0] - 8);
  let path = `M${start[0].toFixed(1)},${start[1].toFixed(1)}`;
  let [x, y] = start;
  for (const [nextX, nextY] of [...between, end]) {
    const bend = (nextX - x) / 2;
    path += ` C${(x + bend).toFixed(1)},${y.toFixed(1)} ${(nextX - bend).toFixed(1)},${nextY.toFixed(1)} ${nextX.toFixed(1)},${nextY.toFixed(1)}`;
    [x, y] = [nextX, nextY];
  }
  return path;
}
