// The picture of the topology: drawn when the plan changes, coloured and labelled as tuples flow.

import { Camera } from "./camera.js";
import { s, setAttributes, setText } from "./dom.js";
import { bytes, names, percent, rate, short } from "./format.js";
import { buildGraph, curve, layOut, nodeId, subgraph } from "./graph.js";
import { CARDS, drawNode, layoutsOf } from "./nodes.js";
import { litNodes } from "./picks.js";

export const LOADS = [0.02, 0.05, 0.1]; // shares of all tuples that move, from which on a line has the next colour
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
    this.searched = "";
    this.hits = [];
    this.viewOfAll = null; // what was seen before a pick was isolated
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
    this.render(this.camera.view, this.camera.view === null ? null : this.nearestCard());
  }

  get isLarge() {
    return this.topology.steps.length > LARGE;
  }

  get isIsolating() {
    return this.pick !== null && (this.isolated ?? this.isLarge);
  }

  setPick(pick) {
    if (pick !== this.pick) this.isolate(() => { this.pick = pick; });
  }

  setIsolated(isolated) {
    this.isolate(() => { this.isolated = isolated; });
  }

  /** A change of what is shown by itself; without one, the view of the whole stays or comes back. */
  isolate(change) {
    const before = this.isIsolating;
    if (!before) this.viewOfAll = this.camera.view;
    change();
    if (this.isIsolating) this.render(null);
    else if (before) this.render(this.viewOfAll);
    else this.light();
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------

  /** `view`: what is to be seen of it; null for all. `anchor`: a node that stays where it is. */
  render(view, anchor = null) {
    const focused = document.activeElement?.closest?.(".node")?.dataset.id;
    if (this.isIsolating) {
      const lit = litNodes(this.graph, this.pick);
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
    this.camera.box = box;
    this.camera.view = view;
    const [was, is] = [anchor, this.drawn.nodes.get(anchor?.id)];
    if (is !== undefined) this.camera.pan((was.x - is.x) * this.camera.scale, (was.y - is.y) * this.camera.scale);
    this.light();
    this.search(this.searched);
    if (focused !== undefined) this.elements.get(focused)?.focus();
  }

  /** The card nearest to the middle of what is seen: it stays in its place when the picture changes around it. */
  nearestCard() {
    const { svg, camera } = this;
    const [x, y] = [(svg.clientWidth / 2 - camera.x) / camera.scale, (svg.clientHeight / 2 - camera.y) / camera.scale];
    let best = null;
    for (const [id, node] of this.drawn?.nodes ?? []) {
      const distance = Math.hypot(node.x - x, node.y - y);
      if (CARDS.has(node.kind) && distance < (best?.distance ?? Infinity)) best = { id, x: node.x, y: node.y, distance };
    }
    return best;
  }

  drawEdge(edge) {
    const [from, to] = [this.drawn.nodes.get(edge.from), this.drawn.nodes.get(edge.to)];
    const path = s("path", { class: `edge ${edge.kind} ${edge.travels ?? ""}`, d: curve(from, to, edge.points), fill: "none" });
    const title = s("title");
    path.append(title);
    const label = s("text", { class: "rate", x: edge.label.x, y: edge.label.y - 5, "text-anchor": "end" });
    const cost = s("text", { class: "cost", x: edge.label.x, y: edge.label.y + 12, "text-anchor": "end" });
    this.edgeLayer.append(path);
    this.labelLayer.append(label, cost);
    this.paths.set(edge.id, { path, label, cost, title, edge });
  }

  drawNode(id, node) {
    const [x, y] = [node.x - node.width / 2, node.y - node.height / 2];
    const group = s("g", { class: `node ${node.kind}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, tabindex: 0, role: "button", "data-id": id });
    group.addEventListener("click", () => { if (!this.camera.wasDragged) this.choose(node); });
    drawNode(group, node, this.drawn.isForest);
    this.nodeLayer.append(group);
    this.elements.set(id, group);
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
    for (const { path, label, cost, title, edge } of this.paths.values()) {
      const [number, share] = [tuples(edge), tuples(edge) / sum];
      setAttributes(path, { "stroke-width": (1.1 + 5.4 * Math.sqrt(number / most)).toFixed(2), "data-load": number === 0 ? "none" : LOADS.filter((limit) => share >= limit).length });
      const isPriced = edge.kind === "probe" && this.pick?.kind === "query" && edge.step.cost != null && edge.users.includes(this.pick.id);
      setText(label, number > 0 || isPriced ? short(number) : "");
      setText(cost, isPriced ? short(edge.step.cost) : "");
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
      setText(group.querySelector(".held"), node.stores.length ? `${short(rows)} rows · ${bytes(size)}` : "read, not stored");
      if (node.kind === "stream") setText(group.querySelector(".rate-in"), node.stream.is_table ? "table" : (this.drawn.isForest ? short : rate)(flows.streams[node.id]?.rate ?? 0));
      setAttributes(group.querySelector(".window"), { width: ((node.width - 20) * share).toFixed(1) });
      const window = node.stores[0]?.window;
      text = `${node.kind === "mir" ? "intermediate result" : node.stream.is_table ? "table" : "stream"} ${node.name}: ${short(rows)} rows, ${bytes(size)}, ${layoutsOf(node) || "not stored"}, ${window ? `${percent(share)} of its window` : "without a window"}; ${used}`;
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

  light() {
    const lit = litNodes(this.drawn, this.pick);
    this.svg.classList.toggle("picking", lit !== null);
    for (const [id, group] of this.elements) {
      const isPicked = this.pick !== null && (id === nodeId(this.pick.kind, this.pick.id) || (this.pick.kind === "store" && id === nodeId("mir", this.pick.id)));
      group.classList.toggle("lit", lit?.has(id) ?? false);
      group.classList.toggle("picked", isPicked);
      setAttributes(group, { "aria-pressed": String(isPicked) });
    }
    for (const { path, label, cost, edge } of this.paths.values()) {
      const isLit = lit !== null && lit.has(edge.from) && lit.has(edge.to) && (this.pick.kind !== "query" || edge.users.includes(this.pick.id));
      path.classList.toggle("lit", isLit);
      label.classList.toggle("lit", isLit);
      cost.classList.toggle("lit", isLit);
    }
    if (this.flows !== null) this.measure(this.flows);
  }

  choose(node) {
    this.onPick(KINDS[node.kind] ?? node.kind, node.id);
  }

  /** Marks what a search finds, as long as it is searched for; `hits` are its nodes in reading order. */
  search(text) {
    this.searched = text;
    const wanted = text.trim().toLowerCase();
    this.hits = [];
    for (const [id, group] of this.elements) {
      const node = this.drawn.nodes.get(id);
      const isHit = wanted !== "" && (node.name.toLowerCase().includes(wanted) || (node.kind === "step" && node.step.keys.some((key) => key.toLowerCase().includes(wanted))));
      group.classList.toggle("hit", isHit);
      if (isHit) this.hits.push(node);
    }
    this.svg.classList.toggle("searching", wanted !== "");
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
    else if (event.key === "0") this.camera.fit({ isWhole: true });
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

function describe(edge) {
  if (edge.kind === "feed") return "stored as an intermediate result";
  if (edge.kind === "emit") return "results";
  const how = { network: "over the network to one worker", local: "on the worker where they are", everywhere: "to every worker" }[edge.travels];
  return `${how}, round ${edge.step.round}`;
}

function sum(sizes, part) {
  return sizes.reduce((total, size) => total + size[part], 0);
}
