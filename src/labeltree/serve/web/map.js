// The map of the tree: areas are bytes. The children of a node are buttons, what is below them is painted.
"use strict";

const SMALLEST = 3; // pixels: smaller boxes are not painted
const AREA_PER_BOX = 420; // pixels: how many boxes are asked for

class TreeMap {
  constructor(showLabel, trouble) {
    this.showLabel = showLabel;
    this.trouble = trouble;
    this.map = byId("map");
    this.canvas = this.map.querySelector("canvas");
    this.boxes = this.map.querySelector(".boxes");
    this.latest = 0;
    this.map.addEventListener("keydown", (event) => this.key(event));
    byId("tree").addEventListener("change", () => this.go(0));
    byId("color").addEventListener("change", () => this.paint());
    new ResizeObserver(() => this.paint()).observe(this.map);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  open(model, overview) {
    this.model = model;
    byId("pick-tree").hidden = overview.trees < 2;
    byId("tree").replaceChildren(...Array.from({ length: overview.trees }, (_, t) => make("option", { value: t }, String(t + 1))));
    const measured = overview.precision !== null;
    byId("pick-color").hidden = !measured;
    byId("color").value = measured ? "precision" : "alpha";
    this.view = null;
    return this.go(0);
  }

  get tree() {
    return Number(byId("tree").value) || 0;
  }

  /** Show a node: fetch as much of it as can be seen, then move the picture there. */
  async go(node, { from = null, label = null, group = null, focus = false } = {}) {
    const number = ++this.latest;
    if (this.running) this.running.abort();
    this.running = new AbortController();
    const seen = this.map.clientWidth * this.map.clientHeight;
    const limit = Math.round(Math.max(150, Math.min(1500, seen / AREA_PER_BOX)));
    let view;
    try {
      const given = { tree: this.tree, node, depth: 2, limit };
      if (label !== null) given.label = label;
      view = await this.model.tree(given, this.running.signal);
    } catch (error) {
      if (error.name !== "AbortError" && number === this.latest) this.trouble(error);
      return;
    }
    if (number !== this.latest) return;
    const before = this.view;
    const outward = before && view.path.length < before.path.length ? before.root.node : null;
    this.view = view;
    this.sought = label;
    this.group = group;
    this.paint();
    this.crumbs();
    this.move(from, outward);
    const { root } = view;
    const place = root.node === 0 ? "The whole tree" : named(root);
    this.map.setAttribute("aria-label", `Map of the tree. ${place}: ${count((root.children || []).length, "box").replace("boxs", "boxes")}`);
    byId("map-status").textContent = `${place}: ${count(root.labels, "label")}, ${size(root.bytes)}`;
    this.describe(root);
    if (focus) {
      const target = (label !== null && this.boxes.querySelector(".is-sought")) || this.boxes.querySelector(`[data-node="${outward}"]`) || this.boxes.querySelector("button");
      if (target) this.focusOn(target);
    }
  }

  /** Zoom to the node that has a label as its child, and mark the label, or the group that it is in. */
  async find(label, focus = false) {
    try {
      const { path, group = null } = await this.model.path({ tree: this.tree, label });
      await this.go(path[path.length - 1].node, { label, group, focus });
    } catch (error) {
      this.trouble(error);
    }
  }

  paint() {
    if (!this.view) return;
    const w = this.map.clientWidth;
    const h = this.map.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(h * ratio);
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.look = colors();
    this.by = byId("color").value;
    const { root } = this.view;
    this.top = this.by === "precision" ? 1 : topOf(root);
    pen.fillStyle = css(this.look.sheet);
    pen.fillRect(0, 0, w, h);
    const focused = this.boxes.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    const buttons = [];
    for (const { box, rect } of layout(root, { x: 0, y: 0, w, h })) {
      if (rect.w < SMALLEST || rect.h < SMALLEST) continue;
      buttons.push(this.box(pen, box, rect, buttons.length, this.color(box, this.color(root, this.look.unknown))));
    }
    this.boxes.replaceChildren(...buttons);
    const first = buttons[focused ?? 0] || buttons[0];
    const tabbed = first && first.tagName === "BUTTON" ? first : this.boxes.querySelector("button");
    if (tabbed) tabbed.tabIndex = 0;
    if (focused !== null && tabbed) tabbed.focus({ preventScroll: true });
    this.legend();
  }

  color(box, otherwise) {
    const value = box[this.by];
    return value === undefined || value === null ? otherwise : onScale(this.look.scale, value / this.top);
  }

  /** Paint a child of the node and what is below it; return its button. */
  box(pen, box, rect, place, color) {
    block(pen, rect, css(box.summed ? this.look.unknown : color), 1);
    const readable = rect.w > 46 && rect.h > 17;
    const below = box.children && rect.w > 24 && rect.h > 40;
    if (below) {
      const inner = { x: rect.x + 3, y: rect.y + (readable ? 21 : 3), w: rect.w - 6, h: rect.h - (readable ? 24 : 6) };
      for (const { box: child, rect: at } of layout(box, inner)) {
        if (at.w >= SMALLEST && at.h >= SMALLEST) block(pen, at, css(child.summed ? this.look.sheet : shade(this.color(child, color), this.look.paper, "label" in child ? 0.16 : 0.1)), 0.5);
      }
    }
    const kind = box.summed ? "is-rest" : "label" in box ? "is-label" : "";
    const found = "label" in box ? box.label === this.sought : this.group !== null && box.node === this.group;
    const sought = found ? " is-sought" : "";
    const element = make(box.summed ? "div" : "button", {
      class: `box ${kind}${sought}${!below && rect.h > 44 && rect.w > 84 ? " tall" : ""}`,
      type: box.summed ? null : "button", tabindex: box.summed ? null : -1, "data-place": place, "data-node": box.node,
      "aria-label": box.summed ? null : describe(box),
    });
    element.style.setProperty("--on", box.summed ? "" : inkOn(color));
    Object.assign(element.style, { transform: `translate(${rect.x}px, ${rect.y}px)`, width: `${rect.w}px`, height: `${rect.h}px` });
    element.rect = rect;
    if (readable) {
      element.append(make("b", {}, named(box)));
      if (!below && rect.h > 44 && rect.w > 60 && !box.summed) element.append(make("i", {}, "label" in box ? count(box.instances, "instance") : `${count(box.labels, "label")}`));
    }
    if (!box.summed) {
      element.addEventListener("click", () => this.enter(box, element, false));
      element.addEventListener("pointerenter", () => this.describe(box));
      element.addEventListener("focus", () => this.describe(box));
    }
    return element;
  }

  enter(box, element, byKey) {
    if ("label" in box) this.showLabel(box.label, box.name, false);
    else if (box.children || this.model.live) this.go(box.node, { from: element.rect, focus: byKey || element === document.activeElement });
  }

  up(focus) {
    const { path } = this.view;
    if (path.length) this.go(path[path.length - 1].node, { focus });
  }

  key(event) {
    const at = document.activeElement;
    if (!this.view || !this.boxes.contains(at) || event.ctrlKey || event.metaKey || event.altKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (ways[event.key]) {
      const next = nearest([...this.boxes.querySelectorAll("button")], at, ways[event.key]);
      if (next) this.focusOn(next);
    } else if (event.key === "Escape" || event.key === "Backspace") this.up(true);
    else if (event.key === "Home") this.go(0, { focus: true });
    else return;
    event.preventDefault();
  }

  focusOn(element) {
    for (const other of this.boxes.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
    element.tabIndex = 0;
    element.focus({ preventScroll: true });
  }

  /** Let the new picture grow out of the box that was opened, or shrink around the one that was left. */
  move(from, outward) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const left = outward === null ? null : this.boxes.querySelector(`[data-node="${outward}"]`);
    const w = this.map.clientWidth;
    const h = this.map.clientHeight;
    let start = null;
    if (from) start = `translate(${from.x}px, ${from.y}px) scale(${from.w / w}, ${from.h / h})`;
    else if (left && left.rect.w > 8 && left.rect.h > 8) {
      const { rect } = left;
      start = `scale(${w / rect.w}, ${h / rect.h}) translate(${-rect.x}px, ${-rect.y}px)`;
    }
    if (!start) return;
    for (const layer of [this.canvas, this.boxes]) {
      layer.style.transformOrigin = "0 0";
      layer.animate([{ transform: start, opacity: 0.35 }, { transform: "none", opacity: 1 }], { duration: 240, easing: "cubic-bezier(.2,.7,.2,1)" });
    }
  }

  crumbs() {
    const { path, root } = this.view;
    byId("crumbs").replaceChildren(...[...path, root].map((box, depth) => {
      const last = depth === path.length;
      const name = box.node === 0 ? "Tree" : named(box);
      return make("li", {}, make("button", { type: "button", title: name, "aria-current": last ? "location" : null, onclick: () => !last && this.go(box.node) }, name));
    }));
  }

  describe(box) {
    byId("map-about").textContent = describe(box);
  }

  legend() {
    byId("legend-low").textContent = "0";
    byId("legend-high").textContent = digits(this.top, this.by === "precision" ? 0 : 2);
    byId("legend-name").textContent = this.by;
    const pen = byId("legend").querySelector("canvas").getContext("2d");
    for (let x = 0; x < 96; x += 1) {
      pen.fillStyle = css(onScale(this.look.scale, x / 95));
      pen.fillRect(x, 0, 1, 10);
    }
  }
}

/** The children of a box with their rectangles; what is not listed is one box at the end. */
function layout(box, rect) {
  const children = [...(box.children || [])];
  if (box.rest && box.rest.bytes > 0) children.push({ summed: box.rest, bytes: box.rest.bytes });
  children.sort((one, other) => other.bytes - one.bytes);
  const places = squares(children.map((child) => child.bytes), rect);
  return children.map((child, k) => ({ box: child, rect: places[k] }));
}

function block(pen, { x, y, w, h }, color, gap) {
  pen.fillStyle = color;
  pen.fillRect(x + gap / 2, y + gap / 2, Math.max(0, w - gap), Math.max(0, h - gap));
}

const shade = (color, to, share) => color.map((part, k) => part + (to[k] - part) * share);

/** The top of the scale for alpha: few of the bytes that are seen have more. Pruned nodes can have more than 1. */
function topOf(root) {
  const seen = [];
  const collect = (box) => {
    for (const child of box.children || []) {
      if (child.alpha !== undefined) seen.push(child);
      collect(child);
    }
  };
  collect(root);
  seen.sort((one, other) => one.alpha - other.alpha);
  const total = seen.reduce((sum, box) => sum + box.bytes, 0);
  let sum = 0;
  const high = seen.find((box) => (sum += box.bytes) >= 0.9 * total);
  return high ? Math.min(1, Math.max(0.05, Math.ceil(20 * high.alpha) / 20)) : 1;
}

function named(box) {
  if (box.summed) return `${whole.format(box.summed.children)} smaller`;
  return "label" in box ? String(box.name) : box.names.join(", ");
}

/** A box in words. */
function describe(box) {
  const parts = [];
  if ("label" in box) parts.push(`${box.name}: ${count(box.instances, "training instance")}`);
  else {
    const more = box.labels - box.names.length;
    parts.push(box.node === 0 ? `The whole tree: ${count(box.labels, "label")}` : `${named(box)}${more > 0 ? ` and ${count(more, "more label")}` : ""}`);
  }
  parts.push(size(box.bytes));
  if (box.features !== undefined) parts.push(count(box.features, "feature"));
  if (box.alpha !== undefined) parts.push(`alpha ${digits(box.alpha)}`);
  if (box.precision !== undefined) parts.push(`precision ${digits(box.precision, 2)}`);
  return parts.join(" · ");
}

/** The nearest button in a direction, by the distance of centres; what lies off the axis counts as farther. */
function nearest(buttons, at, [dx, dy]) {
  const centre = ({ x, y, w, h }) => [x + w / 2, y + h / 2];
  const [x, y] = centre(at.rect);
  let best = null;
  let least = Infinity;
  for (const other of buttons) {
    const [ox, oy] = centre(other.rect);
    const along = (ox - x) * dx + (oy - y) * dy;
    const across = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
    if (other !== at && along > 0.5 && along + 2 * across < least) {
      least = along + 2 * across;
      best = other;
    }
  }
  return best;
}
