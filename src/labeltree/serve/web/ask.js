// Predict: labels with bars as the text is typed, and why, when a label is opened.
"use strict";

class Ask {
  constructor(showLabel, trouble) {
    this.showLabel = showLabel;
    this.trouble = trouble;
    this.text = byId("text");
    this.latest = 0;
    const soon = debounced(() => this.predict(), 140);
    this.text.addEventListener("input", soon);
    byId("top").addEventListener("change", () => this.predict());
  }

  open(model, overview) {
    this.model = model;
    this.overview = overview;
    const features = count(overview.features, "feature");
    const base = overview.one_based ? 1 : 0;
    byId("text-label").textContent = overview.text ? "Text" : "Features";
    byId("ask-note").textContent = overview.text
      ? "Type or paste a text. Open a label to see which words count for and against it."
      : `This model was trained on numbers, not on text: ${features}, counted from ${base}. Type a row as index:value, separated by spaces, for example ${base + 4}:0.21 ${base + 89}:0.4.`;
    this.text.placeholder = overview.text ? "A text to label" : `${base + 4}:0.21 ${base + 89}:0.4`;
    this.predict();
  }

  /** What the text says, as the service takes it; a message if it cannot be a row. */
  query() {
    const text = this.text.value.trim();
    if (this.overview.text) return { text };
    const row = {};
    for (const part of text.split(/\s+/)) {
      if (!/^\d+:[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(part)) return { fault: `Expected index:value, got ${part}` };
      const [feature, value] = part.split(":");
      row[Number(feature)] = Number(value);
    }
    const base = this.overview.one_based ? 1 : 0;
    const features = Object.keys(row).map(Number).sort((a, b) => a - b);
    if (features[0] < base) return { fault: `Features are counted from ${base}.` };
    return { row: { indices: features.map((k) => k - base), values: features.map((k) => row[k]) } };
  }

  async predict() {
    if (this.running) this.running.abort();
    const number = ++this.latest;
    if (!this.text.value.trim()) return this.show([], "");
    const query = this.query();
    if (query.fault) return this.show([], query.fault);
    this.running = new AbortController();
    const start = performance.now();
    try {
      const body = { ...asBody(query), top: Number(byId("top").value) };
      const ask = async (options) => (await this.model.predict({ ...body, ...options }, this.running.signal)).predictions[0].labels;
      const { decision } = this.overview;
      const [labels, accepted] = await Promise.all([ask({}), decision ? ask({ accepted: true }) : null]);
      if (number !== this.latest) return;
      const time = Math.max(1, Math.round(performance.now() - start));
      const status = `${count(labels.length, "label")} in ${time} ms${accepted ? `, ${accepted.length} accepted` : ""}`;
      this.show(labels, labels.length ? status : "No label: the model knows none of these words.", query, accepted);
      this.trouble("");
    } catch (error) {
      if (error.name === "AbortError" || number !== this.latest) return;
      this.show([], "");
      this.trouble(error);
    }
  }

  /** Show labels; what the model does not accept is dimmed, and below a line unless labels have thresholds of their own. */
  show(labels, status, query, accepted = null) {
    const numbers = new Set((accepted || labels).map((label) => label.label));
    const rows = labels.map((label) => this.row(label, query, numbers.has(label.label)));
    const { threshold = 0 } = this.overview.decision || {};
    const dimmed = numbers.size < labels.length;
    // Scores are rounded.
    const fits = ({ label, score }) => (numbers.has(label) ? score > threshold - 1e-6 : score < threshold + 1e-6);
    const hasLine = dimmed && labels.every(fits);
    if (hasLine) rows.splice(numbers.size, 0, make("li", { class: "line small" }, `Not accepted: scores below ${digits(threshold)}`));
    byId("answer-status").textContent = status + (dimmed && !hasLine ? "; the others are dimmed" : "");
    byId("answer").replaceChildren(...rows);
  }

  row(label, query, isAccepted) {
    const name = String(label.name ?? label.label);
    const place = make("div", { class: "why", hidden: true });
    const button = make("button", { type: "button", class: "row", "aria-expanded": "false" },
      make("span", { class: "what" }, name), make("span", { class: "track" }, fill(label.score)),
      make("span", { class: "score" }, digits(label.score)));
    button.addEventListener("click", async () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      place.hidden = open;
      if (open || place.childElementCount) return;
      try {
        const answer = await this.model.explain({ ...asBody(query, false), label: label.label });
        const { paths: all, score, uncalibrated } = answer.predictions[0];
        const both = uncalibrated === null ? [] : [make("p", { class: "small" }, `score before calibration ${digits(uncalibrated)}, probability ${digits(score)}`)];
        place.replaceChildren(...both, ...paths(all),
          make("button", { type: "button", class: "show", onclick: () => this.showLabel(label.label, name) }, "Show in the tree"));
      } catch (error) {
        place.replaceChildren(make("p", { class: "small" }, error.message));
      }
    });
    return make("li", { class: isAccepted ? null : "below" }, button, place);
  }
}

/** A query as a part of a request. */
const asBody = ({ text, row }, many = true) => (text !== undefined ? { text } : many ? { rows: [row] } : { row });
