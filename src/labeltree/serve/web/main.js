// Start: choose the model, and open every part of the page with it.
"use strict";

(function start() {
  const embedded = byId("data");
  const source = embedded ? new Embedded(JSON.parse(embedded.textContent)) : new Service();
  const map = new TreeMap((label, name) => labels.show(label, name, false), trouble);
  const labels = new Labels(map, trouble);
  const ask = new Ask((label, name) => labels.show(label, name), trouble);
  let opened = 0;

  if (!source.live) for (const part of document.querySelectorAll("[data-live]")) part.hidden = true;
  byId("model").addEventListener("change", () => open(byId("model").value));
  byId("unlock").addEventListener("submit", (event) => {
    event.preventDefault();
    source.token = byId("token").value.trim();
    byId("unlock").hidden = true;
    list();
  });

  /** Show what went wrong; nothing removes the message. */
  function trouble(error) {
    const message = error ? String(error.message || error) : "";
    byId("trouble").hidden = !message;
    byId("trouble").textContent = message;
    if (error && error.status === 401) {
      byId("unlock").hidden = false;
      byId("token").focus();
    }
  }

  async function list() {
    try {
      const models = await source.models();
      trouble("");
      byId("pick-model").hidden = models.length < 2;
      byId("model").replaceChildren(...models.map(({ name }) => make("option", { value: name }, name)));
      await open(models[0].name);
    } catch (error) {
      trouble(error);
    }
  }

  async function open(name) {
    const number = ++opened;
    const model = source.open(name);
    try {
      const about = await model.overview();
      if (number !== opened) return;
      trouble("");
      document.title = `${name} · labeltree`;
      byId("name").textContent = name;
      byId("summary").textContent = summary(about);
      byId("colophon").textContent = `Written by labeltree ${about.labeltree_version}, format ${about.format_version}.`;
      showTraining(about);
      showFrontier(about.frontier, about.bytes);
      if (source.live) ask.open(model, about);
      await Promise.all([map.open(model, about), labels.open(model, about)]);
      document.documentElement.dataset.ready = name;
    } catch (error) {
      if (number === opened) trouble(error);
    }
  }

  list();
})();
