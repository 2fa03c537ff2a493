// Labels: search, pages of results, and what the model has learned about one of them.
"use strict";

const PAGE = matchMedia("(max-width: 60rem)").matches ? 6 : 14;

class Labels {
  constructor(map, trouble) {
    this.map = map;
    this.trouble = trouble;
    this.offset = 0;
    this.latest = 0;
    byId("find").addEventListener("input", debounced(() => this.search(0), 140));
    byId("previous").addEventListener("click", () => this.search(this.offset - PAGE));
    byId("next").addEventListener("click", () => this.search(this.offset + PAGE));
  }

  open(model, overview) {
    this.model = model;
    this.overview = overview;
    byId("find").value = "";
    byId("label").hidden = true;
    return this.search(0);
  }

  async search(offset) {
    const number = ++this.latest;
    const search = byId("find").value.trim();
    this.offset = Math.max(0, offset);
    try {
      const { total, labels } = await this.model.labels({ search, offset: this.offset, limit: PAGE });
      if (number !== this.latest) return;
      const range = total > PAGE ? `${whole.format(this.offset + 1)} to ${whole.format(this.offset + labels.length)} of ` : "";
      const missing = this.overview.labels_embedded && this.overview.labels_embedded < this.overview.labels ? " (the most frequent)" : "";
      byId("find-status").textContent = total ? `${range}${count(total, "label")}${missing}` : "No label contains this text.";
      byId("found").replaceChildren(...labels.map((row) => make("li", {},
        make("button", { type: "button", onclick: () => this.show(row.label, row.name, true) },
          make("span", { class: "what" }, String(row.name ?? row.label)), make("span", { title: "training instances" }, whole.format(row.count))))));
      byId("previous").hidden = this.offset === 0;
      byId("next").hidden = this.offset + labels.length >= total;
    } catch (error) {
      if (number === this.latest) this.trouble(error);
    }
  }

  /** Zoom to a label and show what the model has learned about it. */
  async show(label, name, zoom = true) {
    const place = byId("label");
    const title = make("h3", { id: "label-title" }, String(name ?? label));
    if (zoom) {
      byId("inside").scrollIntoView({ block: "start" });
      await this.map.find(label);
    } else {
      this.map.sought = label;
      this.map.paint();
    }
    try {
      const found = await this.model.label(label);
      if (!found) {
        place.hidden = true;
        return;
      }
      const profile = found.profile || found;
      place.replaceChildren(title, make("p", { class: "small" }, `${count(profile.instances ?? profile.count, "training instance")}. The words with the largest weights at each step:`), ...paths(profile.paths));
    } catch (error) {
      place.replaceChildren(title, make("p", { class: "small" }, error.message));
    }
    place.hidden = false;
    byId("map-status").textContent = `${name ?? label} is described below the map.`;
  }
}
