// Zoom and pan of the picture, by mouse, fingers and keys.

const MIN = 0.15;
const MAX = 3;
const LARGEST_FIT = 1.25;
const READABLE = 0.8; // below it, text is too small to read

export class Camera {
  constructor(svg, scene) {
    Object.assign(this, { svg, scene, x: 0, y: 0, scale: 1, moved: false, box: { left: 0, top: 0, width: 1, height: 1 } });
    this.pointers = new Map();
    svg.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    svg.addEventListener("pointerdown", (event) => this.onDown(event));
    svg.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) svg.addEventListener(name, (event) => this.onUp(event));
    new ResizeObserver(() => { if (!this.moved) this.fit(); }).observe(svg);
  }

  apply() {
    this.scene.setAttribute("transform", `translate(${this.x.toFixed(2)} ${this.y.toFixed(2)}) scale(${this.scale.toFixed(4)})`);
    this.svg.classList.toggle("far", this.scale < 0.55);
  }

  /** Shows all of the picture; unless `isWhole`, only as much of it as can be read. */
  fit({ box = this.box, isWhole = false } = {}) {
    this.box = box;
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width || !height) return;
    const [side, top, bottom] = [16, 54, 10]; // room for the tools
    this.scale = Math.max(MIN, Math.min(LARGEST_FIT, (width - 2 * side) / box.width, (height - top - bottom) / box.height));
    if (!isWhole) this.scale = Math.max(this.scale, READABLE); // the rest is a drag away
    const isWider = box.width * this.scale > width - 2 * side;
    this.x = (isWider ? side : (width - box.width * this.scale) / 2) - box.left * this.scale;
    this.y = top + Math.max(0, (height - top - bottom - box.height * this.scale) / 2) - box.top * this.scale;
    this.moved = isWhole && this.scale < READABLE;
    this.apply();
  }

  /** What is seen, to come back to it. */
  get view() {
    return this.moved ? { x: this.x, y: this.y, scale: this.scale } : null;
  }

  set view(view) {
    if (view === null) {
      this.fit();
      return;
    }
    Object.assign(this, view, { moved: true });
    this.apply();
  }

  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.max(MIN, Math.min(MAX, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.moved = true;
    this.apply();
  }

  pan(x, y) {
    this.x += x;
    this.y += y;
    this.moved = true;
    this.apply();
  }

  /** Moves a node into sight, if it is not, at a scale at which it can be read. */
  show(node, always = false) {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (always && this.scale < 0.7) this.zoom(0.85 / this.scale);
    const [x, y] = [node.x * this.scale + this.x, node.y * this.scale + this.y];
    const margin = 60;
    if (always || x < margin || y < margin || x > width - margin || y > height - margin) this.pan(width / 2 - x, height / 2 - y);
  }

  onWheel(event) {
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoom(Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 120 : 500)), event.clientX - box.left, event.clientY - box.top);
  }

  onDown(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.dragged = 0;
  }

  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = { x: event.clientX, y: event.clientY };
    if (this.pointers.size === 1) {
      this.dragged += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (this.dragged > 4) {
        if (!this.svg.hasPointerCapture(event.pointerId)) this.svg.setPointerCapture(event.pointerId);
        this.svg.classList.add("dragging");
        this.pan(now.x - before.x, now.y - before.y);
      }
    } else if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const distance = (point) => Math.hypot(point.x - other.x, point.y - other.y);
      const box = this.svg.getBoundingClientRect();
      this.zoom(distance(now) / Math.max(1, distance(before)), (now.x + other.x) / 2 - box.left, (now.y + other.y) / 2 - box.top);
      this.dragged = 100;
    }
    this.pointers.set(event.pointerId, now);
  }

  onUp(event) {
    this.pointers.delete(event.pointerId);
    this.svg.classList.remove("dragging");
  }

  /** Whether the click that comes now ends a drag. */
  get wasDragged() {
    return (this.dragged ?? 0) > 4;
  }
}
