// Elements without markup: text from queries and data only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets attributes that have changed. */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) element.removeAttribute(name);
    else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

/** Keeps one element per item, by key and in order, so that focus and selection survive an update. */
export function keyed(container, items, key, create, update) {
  const before = new Map([...container.children].map((child) => [child.dataset.key, child]));
  let at = container.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let element = before.get(name);
    if (element === undefined) {
      element = create(item);
      element.dataset.key = name;
    }
    before.delete(name);
    update?.(element, item);
    if (element === at) at = at.nextElementSibling;
    else container.insertBefore(element, at);
  }
  for (const gone of before.values()) gone.remove();
}

/** A length or share as a style that the content security policy allows: through the object model, not through markup. */
export function setStyle(element, name, value) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

export function bar(share, label) {
  const inner = h("span", { class: "fill" });
  const outer = h("span", { class: "meter", role: "img", "aria-label": label }, inner);
  setBar(outer, share, label);
  return outer;
}

export function setBar(outer, share, label) {
  setStyle(outer.firstElementChild, "width", `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`);
  setAttributes(outer, { "aria-label": label, title: label });
}
