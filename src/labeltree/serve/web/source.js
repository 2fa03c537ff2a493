// Where the data comes from: the service, or what `labeltree page` embedded in this file. Both answer alike.
"use strict";

class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

class Service {
  constructor() {
    this.live = true;
    this.token = null;
  }

  async models() {
    return (await this.ask("models")).models;
  }

  open(name) {
    const base = `models/${encodeURIComponent(name)}`;
    const get = (path, given, signal) => this.ask(`${base}${path}?${new URLSearchParams(given)}`, { signal });
    const post = (path, body, signal) => this.ask(path, { method: "POST", signal, body: JSON.stringify({ model: name, ...body }) });
    return {
      live: true,
      overview: () => get("", {}),
      tree: (given, signal) => get("/tree", given, signal),
      path: async (given) => {
        const { path, root } = await get("/tree", { ...given, depth: 1 });
        return { path: [...path, root] };
      },
      labels: (given, signal) => get("/labels", given, signal),
      label: (number) => this.ask(`${base}/labels/${encodeURIComponent(number)}`),
      predict: (body, signal) => post("predict", body, signal),
      explain: (body, signal) => post("explain", body, signal),
    };
  }

  async ask(path, options = {}) {
    const headers = options.body ? { "Content-Type": "application/json" } : {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused("The service does not respond.", 0);
    }
    let content = null;
    try {
      content = await answer.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    if (!answer.ok) throw new Refused(reason(content) || `The service answers ${answer.status}.`, answer.status);
    if (content === null) throw new Refused("The response cannot be read.", answer.status);
    return content;
  }
}

/** The message of an error, in whichever way it is wrapped. */
function reason(content) {
  let found = content;
  while (found && typeof found === "object") {
    found = Array.isArray(found) ? found[0] : (found.message ?? found.detail ?? found.error ?? found.msg ?? null);
  }
  return typeof found === "string" ? found : null;
}

/** A model whose tree and labels are in the file. Small groups of labels are summed up there. */
class Embedded {
  constructor(data) {
    this.live = false;
    this.data = data;
  }

  async models() {
    return [this.data.model];
  }

  open() {
    const { overview, trees, labels } = this.data;
    const nodes = trees.map((root) => index(root, [], new Map()));
    const folded = labels.names.map((name) => name.toLocaleLowerCase());
    const find = (tree, node) => nodes[tree].get(node) || nodes[tree].get(0);
    return {
      live: false,
      overview: async () => overview,
      tree: async ({ tree = 0, node = 0 }) => {
        const { box, path } = find(tree, node);
        return { tree, trees: trees.length, path, root: box };
      },
      path: async ({ tree = 0, label }) => {
        const { box, path } = find(tree, labels.nodes[tree][labels.numbers.indexOf(label)]);
        // What is below a small group is not in the file: the group itself is shown.
        return box.children ? { tree, label, path: [...path, box] } : { tree, label, path, group: box.node };
      },
      labels: async ({ search = "", offset = 0, limit = 20 }) => {
        const wanted = search.toLocaleLowerCase();
        const word = new RegExp(`(?<![\\p{L}\\p{N}_])${wanted.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}(?![\\p{L}\\p{N}_])`, "u");
        const [words, parts] = [[], []];
        folded.forEach((name, place) => { if (name.includes(wanted)) (word.test(name) ? words : parts).push(place); });
        const places = [...words, ...parts];
        const rows = places.slice(offset, offset + limit).map((k) => ({ label: labels.numbers[k], name: labels.names[k], count: labels.counts[k] }));
        return { total: places.length, labels: rows };
      },
      label: async () => null,
    };
  }
}

function index(box, path, found) {
  found.set(box.node, { box, path });
  for (const child of box.children || []) if ("node" in child) index(child, [...path, box], found);
  return found;
}
