// What works for a query, a stream, an intermediate result or a step.

import { nodeId } from "./graph.js";

/** The nodes that a pick concerns; null where nothing is picked. */
export function litNodes(graph, pick) {
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
    for (const fed of step.feeds) add(nodeId("fed", `${step.id}:${fed}`));
    for (const name of step.emits) add(nodeId("result", `${step.id}:${name}`));
  }
  for (const id of stores) {
    const store = graph.stores.get(id);
    add(store?.stream === null ? nodeId("mir", id) : nodeId("stream", store?.stream));
    for (const name of store?.users ?? []) add(nodeId("query", name));
  }
  return lit;
}
