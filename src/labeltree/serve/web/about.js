// About the model: its size against its precision, and how it was trained.
"use strict";

/** The model in a sentence or two. */
function summary(about) {
  const trained = `${count(about.labels, "label")}, learned from ${count(about.instances, about.text ? "text" : "row")} with ${count(about.features, about.text ? "term" : "feature")}.`;
  const stored = { float32: "all weights as float32", float16: "all weights as float16", int8: "all weights as int8", sparse: "the larger weights as int8" }[about.codec];
  return `${trained} ${size(about.bytes)} on disk${stored ? `: ${stored}` : ""}.`;
}

function showTraining(about) {
  const pairs = [];
  const list = (values) => Object.entries(values).map(([name, value]) => `${name.replaceAll("_", " ")} ${say(value)}`).join(", ");
  pairs.push(["Data", `${count(about.instances, "instance")}, ${count(about.features, "feature")}, ${count(about.labels, "label")}`]);
  if (about.normalized) pairs.push(["Rows", "scaled to length 1"]);
  pairs.push(["Written", about.written ? new Date(about.written).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" }) : "unknown"]);
  pairs.push(["Trees", `${count(about.trees, "tree")}, ${count(about.nodes, "node")}, depth ${about.depth}`]);
  pairs.push(["Weights", `${whole.format(about.weights)} as ${about.codec === "sparse" ? "int8" : about.codec}${about.pruned ? `, without those below ${about.pruned.threshold}` : ""}`]);
  pairs.push(["Size", `${size(about.bytes)} (${count(about.bytes, "byte")})`]);
  pairs.push(["Solver", list(about.settings)]);
  if (Object.keys(about.notes || {}).length) pairs.push(["Options", list(about.notes)]);
  pairs.push(["Score", list(about.score) + (about.calibrated ? ", calibrated: a probability" : "")]);
  pairs.push(["Accepts", about.accepts ? `scores from ${about.accepts}` : "all labels: no threshold is stored"]);
  if (about.text) pairs.push(["Text", `TF-IDF, ${list(about.text)}`]);
  if (about.precision !== null) pairs.push(["Precision", `${digits(100 * about.precision, 1)}% of ${count(about.predictions, "accepted label")} are correct`]);
  byId("facts").replaceChildren(...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const rows = about.shapes.flatMap((shape, tree) => shape.map((row) => ({ ...row, tree })));
  const most = Math.max(...rows.map((row) => row.bytes));
  const head = [...(about.trees > 1 ? ["tree"] : []), "depth", "nodes", "labels", "used features", "alpha", "bytes", ""];
  byId("depths").replaceChildren(table(head, rows.map((row) => [
    ...(about.trees > 1 ? [String(row.tree + 1)] : []), String(row.depth), whole.format(row.nodes), whole.format(row.labels),
    whole.format(Math.round(row.mean_used_features)), row.alpha === null ? "" : digits(row.alpha), size(row.bytes), fill(row.bytes / most)])));
}

function say(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.length > 4 ? `${value.length} words` : value.join("-");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function table(head, rows) {
  const cell = (value) => make("td", { class: value instanceof Node ? "share" : null }, value);
  return make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell)))));
}

/** Draw P@1, P@3 and P@5 against bytes on a logarithmic axis. */
function showFrontier(points, bytes) {
  const shown = Boolean(points && points.length);
  byId("frontier").hidden = byId("to-frontier").hidden = !shown;
  if (!shown) return;
  const most = Math.max(...points.map((point) => point.trees));
  const all = points.filter((point) => point.trees === most).sort((one, other) => one.bytes - other.bytes);
  const narrow = byId("main").clientWidth < 560;
  const [w, h, left, right, above, below] = narrow ? [420, 300, 34, 44, 12, 34] : [960, 340, 44, 60, 12, 36];
  const sizes = [...all.map((point) => point.bytes), bytes];
  const [low, high] = [Math.log10(Math.min(...sizes)) - 0.05, Math.log10(Math.max(...sizes)) + 0.05];
  const values = all.flatMap((point) => [point["P@1"], point["P@3"], point["P@5"]]);
  const step = [1, 2, 5, 10, 20].find((unit) => (Math.max(...values) - Math.min(...values)) / unit <= 7) || 20;
  const [floor, top] = [Math.floor(Math.min(...values) / step) * step, Math.ceil((Math.max(...values) + 0.01) / step) * step];
  const x = (value) => left + ((Math.log10(value) - low) / (high - low)) * (w - left - right);
  const y = (value) => above + ((top - value) / (top - floor)) * (h - above - below);
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Precision against size, from ${size(sizes[0])} to ${size(Math.max(...sizes))}` });
  for (let value = floor; value <= top; value += step) {
    svg.append(draw("line", { class: "grid", x1: left, x2: w - right, y1: y(value), y2: y(value) }), draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  let last = -Infinity;
  for (let power = Math.floor(low); power <= high; power += 1) {
    for (const digit of [1, 2, 5]) {
      const value = digit * 10 ** power;
      if (Math.log10(value) < low || Math.log10(value) > high || x(value) - last < 62) continue;
      last = x(value);
      svg.append(draw("text", { x: last, y: h - 12, "text-anchor": "middle" }, size(value).replace(".0 ", " ")));
    }
  }
  if (Math.log10(bytes) >= low) {
    const end = x(bytes) > w - right - 90 ? "end" : "start";
    svg.append(draw("line", { class: "this", x1: x(bytes), x2: x(bytes), y1: above, y2: h - below }),
      draw("text", { class: "this-name", x: x(bytes) + (end === "end" ? -6 : 6), y: h - below - 8, "text-anchor": end }, "this model"));
  }
  for (const rank of [1, 3, 5]) {
    const of = (point) => point[`P@${rank}`];
    svg.append(draw("path", { class: `curve k${rank}`, d: all.map((point, k) => `${k ? "L" : "M"}${x(point.bytes).toFixed(1)} ${y(of(point)).toFixed(1)}`).join("") }));
    for (const point of all) {
      const dot = draw("circle", { class: `dot${point.chosen ? " chosen" : ""}`, cx: x(point.bytes), cy: y(of(point)), r: point.chosen ? 5 : 2.6 });
      dot.append(draw("title", {}, `${form(point)}: ${size(point.bytes)}, P@${rank} ${digits(of(point), 2)}`));
      svg.append(dot);
    }
    svg.append(draw("text", { x: w - right + 10, y: y(of(all[all.length - 1])) + 4 }, `P@${rank}`));
  }
  byId("plot").replaceChildren(svg, ...all.filter((point) => point.chosen).map((point) => make("p", { class: "key small" },
    make("span", { class: "chosen-dot", "aria-hidden": "true" }), `Suggested: ${form(point)}; ${size(point.bytes)}, P@1 ${digits(point["P@1"], 2)}`)));
  byId("points").replaceChildren(table(["trees", "weights", "bytes", "P@1", "P@3", "P@5", ""], points.map((point) => [
    String(point.trees), form(point), size(point.bytes), ...["P@1", "P@3", "P@5"].map((name) => digits(point[name], 2)), point.chosen ? "suggested" : ""])));
}

const form = (point) => (point.threshold === null ? point.weights : `${point.weights}, below ${point.threshold} dropped`);
