// Why: the steps of a path through the tree, each with its words for and against.
"use strict";

/** Explain all paths to a label. `steps` are those of an explanation or of a label's profile. */
function paths(all) {
  return all.map((path, tree) => {
    const steps = Array.isArray(path) ? path : path.steps;
    const title = all.length > 1 ? make("p", { class: "tree-name" }, `Tree ${tree + 1}${path.reached === false ? ", not reached by the search" : ""}`) : null;
    return make("div", {}, title, make("ol", { class: "steps", "aria-label": "Path through the tree" }, ...steps.map(step)));
  });
}

function step(given) {
  const { child } = given;
  const many = child.labels > 1;
  const more = child.labels - child.frequent.length;
  const name = make("div", { class: "step-name" },
    make("span", { class: "what" }, child.frequent.join(", ") + (many && more > 0 ? ` and ${count(more, "more label")}` : "")),
    make("span", { class: "small" }, given.factor === undefined
      ? `${many ? "one" : "a label, one"} of ${count(given.siblings + 1, "child").replace("childs", "children")}`
      : `× ${digits(given.factor)}${given.others ? `, other words ${signed(given.rest)}` : ""}${given.bias ? `, bias ${signed(given.bias)}` : ""}`));
  const value = (word) => word.product ?? word.weight;
  const most = Math.max(1e-9, ...[...given.supporting, ...given.opposing].map((word) => Math.abs(value(word))));
  const side = (title, kind, words) => make("div", { class: `side ${kind}` }, make("h4", {}, title),
    words.length ? make("ul", {}, ...words.map((word) => {
      const row = make("li", {}, make("span", {}, word.name), make("span", {}, signed(value(word))));
      row.style.setProperty("--share", String(Math.abs(value(word)) / most));
      return row;
    })) : make("p", { class: "small" }, "none"));
  return make("li", {}, name, make("div", { class: "sides" }, side("for", "for", given.supporting), side("against", "against", given.opposing)));
}
