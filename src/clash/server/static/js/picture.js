// The picture of the topology: drawn when the plan changes, coloured and labelled as tuples flow.

import { Camera } from "./camera.js";
import { s, setAttributes, setText } from "./dom.js";
import { bytes, names, percent, rate, short } from "./format.js";
import { buildGraph, curve, fit, layOut, nodeId, subgraph } from "./graph.js";

const LARGE = 45; // steps from which on trees are drawn one by one, and a pick by itself

export class Picture {
  /** `onPick(kind, id)` is called for a node that is chosen. */
  constructor(svg, onPick) {
    this.svg = svg;
    this.onPick = onPick;
    this.edgeLayer = s("g", { class: "edges" });
    this.labelLayer = s("g", { class: "labels", "aria-hidden": "true" });
    this.nodeLayer = s("g", { class: "nodes" });
    const scene = s("g", {}, this.edgeLayer, this.labelLayer, this.nodeLayer);
    svg.replaceChildren(scene);
    this.camera = new Camera(svg, scene);
    this.pick = null;
    this.isolated = null;
    this.flows = null;
    svg.addEventListener("click", (event) => {
      if (this.camera.wasDragged || event.target.closest(".node")) return;
      if (this.pick !== null) this.onPick(null, null);
    });
    svg.addEventListener("keydown", (event) => this.onKey(event));
  }

  setTopology(topology) {
    this.topology = topology;
    this.graph = buildGraph(topology);
    this.forest = this.isLarge ? buildGraph(topology, true) : null;
    this.render();
  }

  get isLarge() {
    return this.topology.steps.length > LARGE;
  }

  get isIsolating() {
    return this.pick !== null && (this.isolated ?? this.isLarge);
  }

  setPick(pick) {
    const before = this.isIsolating;
    this.pick = pick;
    if (before || this.isIsolating) this.render();
    else this.light();
  }

  setIsolated(isolated) {
    this.isolated = isolated;
    this.render();
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------

  render() {
    const focused = document.activeElement?.closest?.(".node")?.dataset.id;
    if (this.isIsolating) {
      const lit = this.litNodes(this.graph);
      this.drawn = subgraph(this.graph, (_, id) => lit.has(id));
    } else this.drawn = this.forest ?? this.graph;
    const box = layOut(this.drawn, { width: this.svg.clientWidth || 1000, height: this.svg.clientHeight || 700 });
    this.elements = new Map();
    this.paths = new Map();
    this.edgeLayer.replaceChildren();
    this.labelLayer.replaceChildren();
    this.nodeLayer.replaceChildren();
    for (const edge of this.drawn.edges) this.drawEdge(edge);
    const inReadingOrder = [...this.drawn.nodes].sort(([, a], [, b]) => a.x - b.x || a.y - b.y);
    for (const [id, node] of inReadingOrder) this.drawNode(id, node);
    this.camera.fit(box);
    this.light();
    if (this.flows !== null) this.measure(this.flows);
    if (focused !== undefined) this.elements.get(focused)?.focus();
  }

  drawEdge(edge) {
    const [from, to] = [this.drawn.nodes.get(edge.from), this.drawn.nodes.get(edge.to)];
    const path = s("path", { class: `edge ${edge.kind} ${edge.travels ?? ""}`, d: curve(from, to, edge.points), fill: "none" });
    const title = s("title");
    path.append(title);
    const label = s("text", { class: "rate", x: to.x - to.width / 2 - 6, y: to.y - 6, "text-anchor": "end" });
    this.edgeLayer.append(path);
    if (edge.kind === "probe") this.labelLayer.append(label);
    this.paths.set(edge.id, { path, label, title, edge });
  }

  drawNode(id, node) {
    const [x, y] = [node.x - node.width / 2, node.y - node.height / 2];
    const group = s("g", { class: `node ${node.kind}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, tabindex: 0, role: "button", "data-id": id });
    group.addEventListener("click", () => { if (!this.camera.wasDragged) this.choose(node); });
    group.append(s("rect", { class: "box", width: node.width, height: node.height, rx: node.kind === "step" ? 15 : node.kind === "result" || node.kind === "fed" ? 11 : 8 }));
    if (node.kind === "stream" || node.kind === "mir") this.drawStore(group, node);
    else if (node.kind === "step") drawStep(group, node);
    else if (node.kind === "query") drawQuery(group, node);
    else drawEnd(group, node);
    group.append(s("title"));
    this.nodeLayer.append(group);
    this.elements.set(id, group);
  }

  drawStore(group, node) {
    if (node.kind === "mir") group.append(s("rect", { class: "inner", x: 3, y: 3, width: node.width - 6, height: node.height - 6, rx: 6 }));
    const swatch = s("rect", { class: "swatch", x: 10, y: 12, width: 9, height: 9, rx: 2 });
    swatch.style.setProperty("--hue", node.hue ?? 0);
    const layouts = [...new Set(node.stores.flatMap((store) => store.layouts))];
    group.append(
      swatch,
      s("text", { class: "name", x: 25, y: 21 }, fit(node.name, node.width - (node.kind === "mir" ? 36 : 88), "600 12px")[0]),
      s("text", { class: "figure rate-in", x: node.width - 10, y: 21, "text-anchor": "end" }),
      s("text", { class: "small held", x: 10, y: 38 }, node.stores.length ? "empty" : "read, not stored"),
      s("text", { class: "small layout", x: 10, y: 53 }, fit(layouts.join(" and "), node.width - 20, "10.5px")[0]),
      s("rect", { class: "track", x: 10, y: 64, width: node.width - 20, height: 5, rx: 2.5 }),
      s("rect", { class: "window", x: 10, y: 64, width: 0, height: 5, rx: 2.5 }),
    );
  }

  // ---- measures --------------------------------------------------------------------------------------------------

  measure(flows) {
    this.flows = flows;
    if (this.drawn === undefined) return;
    const workers = this.topology.workers;
    const tuples = (edge) => {
      if (edge.stream !== undefined) return flows.streams[edge.stream]?.rate ?? 0;
      const [probes, matches] = flows.steps[edge.step.id] ?? [0, 0];
      return edge.kind === "probe" ? probes * (edge.travels === "everywhere" ? workers : 1) : matches;
    };
    const all = this.graph.edges.map(tuples);
    const [most, sum] = [Math.max(1e-9, ...all), Math.max(1e-9, all.reduce((a, b) => a + b, 0))];
    for (const { path, label, title, edge } of this.paths.values()) {
      const [number, share] = [tuples(edge), tuples(edge) / sum];
      setAttributes(path, { "stroke-width": (1.1 + 5.4 * Math.sqrt(number / most)).toFixed(2), "data-load": number === 0 ? "none" : share < 0.03 ? 0 : share < 0.08 ? 1 : share < 0.18 ? 2 : 3 });
      const cost = this.pick?.kind === "query" && edge.step?.cost != null && edge.users.includes(this.pick.id) ? ` · ${short(edge.step.cost)}` : "";
      setText(label, number > 0 || cost ? `${rate(number)}${cost}` : "");
      setText(title, `${describe(edge)}: ${rate(number)}, ${percent(share)} of all tuples that move`);
    }
    for (const [id, group] of this.elements) this.measureNode(this.drawn.nodes.get(id), group, flows);
  }

  measureNode(node, group, flows) {
    const title = group.querySelector("title");
    const used = node.users.length ? `used by ${names(node.users)}` : "no query uses it";
    let text = "";
    if (node.kind === "stream" || node.kind === "mir") {
      const sizes = node.stores.map((store) => flows.stores[store.id]).filter((size) => size !== undefined);
      const [rows, size] = [sum(sizes, "rows"), sum(sizes, "bytes")];
      const share = Math.max(0, ...sizes.map((found) => found.window_share ?? 0));
      if (node.stores.length) setText(group.querySelector(".held"), `${short(rows)} rows · ${bytes(size)}`);
      if (node.kind === "stream") setText(group.querySelector(".rate-in"), node.stream.is_table ? "table" : rate(flows.streams[node.id]?.rate ?? 0));
      setAttributes(group.querySelector(".window"), { width: ((node.width - 20) * share).toFixed(1) });
      const window = node.stores[0]?.window;
      text = `${node.kind === "mir" ? "intermediate result" : node.stream.is_table ? "table" : "stream"} ${node.name}: ${short(rows)} rows, ${bytes(size)}, ${window ? `${percent(share)} of its window` : "without a window"}; ${used}`;
    } else if (node.kind === "step") {
      const [probes, matches] = flows.steps[node.id] ?? [0, 0];
      text = `probe of ${node.name} by ${node.step.keys.join(" and ") || "every row"}: ${rate(probes)} in, ${rate(matches)} out; ${used}`;
    } else if (node.kind === "fed") {
      text = `stored as the intermediate result ${node.name}; ${used}`;
    } else {
      const results = flows.results[node.id] ?? 0;
      if (node.kind === "query") setText(group.querySelector(".figure"), rate(results));
      text = `query ${node.name}: ${rate(results)}`;
    }
    setText(title, text);
    setAttributes(group, { "aria-label": text });
  }

  // ---- what is picked --------------------------------------------------------------------------------------------

  /** The nodes that a pick concerns; null where nothing is picked. */
  litNodes(graph) {
    const { pick } = this;
    if (pick === null) return null;
    const lit = new Set();
    const add = (id) => graph.nodes.has(id) && lit.add(id);
    if (pick.kind === "query") {
      for (const [id, node] of graph.nodes) if (node.users.includes(pick.id)) lit.add(id);
      return lit;
    }
    const steps = [...graph.steps.values()];
    const stores = pick.kind === "stream" ? graph.nodes.get(nodeId("stream", pick.id))?.stores.map((store) => store.id) ?? [] : [pick.kind === "step" ? graph.steps.get(pick.id)?.store : pick.id];
    const chosen = pick.kind === "step" ? steps.filter((step) => step.id === pick.id) : steps.filter((step) => stores.includes(step.store) || step.feeds.some((fed) => stores.includes(fed)));
    for (const step of chosen) {
      for (let at = step; at !== undefined; at = graph.steps.get(at.parent)) {
        add(nodeId("step", at.id));
        const origin = graph.origins.get(at.parent);
        if (origin !== undefined) add(nodeId("stream", origin.stream));
      }
      for (const name of step.users) add(nodeId("query", name));
    }
    for (const id of stores) {
      const store = graph.stores.get(id);
      add(store?.stream === null ? nodeId("mir", id) : nodeId("stream", store?.stream));
      for (const name of store?.users ?? []) add(nodeId("query", name));
    }
    return lit;
  }

  light() {
    const lit = this.litNodes(this.drawn);
    this.svg.classList.toggle("picking", lit !== null);
    for (const [id, group] of this.elements) {
      const isPicked = this.pick !== null && (id === nodeId(this.pick.kind, this.pick.id) || (this.pick.kind === "store" && id === nodeId("mir", this.pick.id)));
      group.classList.toggle("lit", lit?.has(id) ?? false);
      group.classList.toggle("picked", isPicked);
      setAttributes(group, { "aria-pressed": String(isPicked) });
    }
    for (const { path, label, edge } of this.paths.values()) {
      const isLit = lit !== null && lit.has(edge.from) && lit.has(edge.to) && (this.pick.kind !== "query" || edge.users.includes(this.pick.id));
      path.classList.toggle("lit", isLit);
      label.classList.toggle("lit", isLit);
    }
    if (this.flows !== null) this.measure(this.flows);
  }

  choose(node) {
    this.onPick(KINDS[node.kind] ?? node.kind, node.id);
  }

  /** Marks what a search finds; the nodes in reading order. */
  search(text) {
    const wanted = text.trim().toLowerCase();
    const found = [];
    for (const [id, group] of this.elements) {
      const node = this.drawn.nodes.get(id);
      const isHit = wanted !== "" && (node.name.toLowerCase().includes(wanted) || (node.kind === "step" && node.step.keys.some((key) => key.toLowerCase().includes(wanted))));
      group.classList.toggle("hit", isHit);
      if (isHit) found.push(node);
    }
    this.svg.classList.toggle("searching", wanted !== "");
    return found;
  }

  reveal(node) {
    this.camera.show(node, true);
  }

  // ---- keys ------------------------------------------------------------------------------------------------------

  onKey(event) {
    const group = event.target.closest(".node");
    const node = group === null ? null : this.drawn.nodes.get(group.dataset.id);
    if (node !== null && (event.key === "Enter" || event.key === " ")) this.choose(node);
    else if (event.key === "Escape") this.onPick(null, null);
    else if (event.key === "+" || event.key === "=") this.camera.zoom(1.25);
    else if (event.key === "-") this.camera.zoom(0.8);
    else if (event.key === "0") this.camera.fit();
    else if (event.key.startsWith("Arrow") && (event.shiftKey || node === null)) this.camera.pan(...PANS[event.key]);
    else if (event.key.startsWith("Arrow")) this.move(node, event.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The focus goes to the nearest node in a direction. */
  move(node, key) {
    const [dx, dy] = PANS[key].map((value) => -Math.sign(value));
    let best = null;
    for (const [id, other] of this.drawn.nodes) {
      const [x, y] = [other.x - node.x, other.y - node.y];
      const [along, across] = [x * dx + y * dy, Math.abs(x * dy) + Math.abs(y * dx)];
      if (other === node || along <= 4) continue;
      const distance = along + 2.5 * across;
      if (best === null || distance < best.distance) best = { id, other, distance };
    }
    if (best !== null) {
      this.elements.get(best.id).focus();
      this.camera.show(best.other);
    }
  }
}

const KINDS = { mir: "store", fed: "store", result: "query" };
const PANS = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

function drawStep(group, node) {
  const swatch = s("rect", { class: "swatch", x: 12, y: 10.5, width: 9, height: 9, rx: 2 });
  swatch.style.setProperty("--hue", node.hue ?? 0);
  group.append(swatch, s("text", { class: "name", x: 26, y: 19 }, node.label));
  if (node.users.length > 1) {
    group.classList.add("shared");
    group.append(
      s("rect", { class: "badge", x: node.width - 33, y: 7, width: 24, height: 16, rx: 8 }),
      s("text", { class: "badge-text", x: node.width - 21, y: 19, "text-anchor": "middle" }, `×${node.users.length}`),
    );
  }
}

/** The end of a path, where trees are drawn one by one. */
function drawEnd(group, node) {
  if (node.kind === "fed") {
    const swatch = s("rect", { class: "swatch", x: 10, y: 7, width: 8, height: 8, rx: 2 });
    swatch.style.setProperty("--hue", node.hue ?? 0);
    group.append(swatch);
  }
  group.append(s("text", { class: "name", x: node.kind === "fed" ? 23 : 10, y: 15 }, node.label));
}

function drawQuery(group, node) {
  group.append(
    s("text", { class: "name", x: 12, y: 20 }, fit(node.name, node.width - 24, "600 12px")[0]),
    s("text", { class: "small", x: 12, y: 36 }, fit(node.query.streams.join(" ⋈ "), node.width - 76, "10.5px")[0]),
    s("text", { class: "figure", x: node.width - 10, y: 36, "text-anchor": "end" }),
  );
}

function describe(edge) {
  if (edge.kind === "feed") return "stored as an intermediate result";
  if (edge.kind === "emit") return "results";
  const how = { network: "over the network to one worker", local: "on the worker where they are", everywhere: "to every worker" }[edge.travels];
  return `${how}, round ${edge.step.round}`;
}

function sum(sizes, part) {
  return sizes.reduce((total, size) => total + size[part], 0);
}
