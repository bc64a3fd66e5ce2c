// The panel of acceleration modules: what each saves, why it is on or off, and its switch.
import { loadModules, switchModule } from "./api.js";
import { make } from "./dom.js";

const panel = document.getElementById("modules");
const rows = document.getElementById("module-rows");
const decisions = document.getElementById("decisions");
const note = document.getElementById("modules-state");

const kStates = { active: "on", trial: "on trial", cooling: "withdrawn for now" };
const kShownDecisions = 8;

const percent = share => (share === null ? "not yet known" : `${(share * 100).toFixed(0)}%`);
const megabytes = bytes => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const isOff = module => module.state === "off" || module.state === "refused";

function since(seconds) {
  if (seconds < 90)
    return `${seconds.toFixed(0)} s ago`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min ago` : `${(seconds / 3600).toFixed(1)} h ago`;
}

function guesses({ proposed, accepted }) {
  return proposed === 0 ? "none" : `${accepted} of ${proposed} (${percent(accepted / proposed)})`;
}

export class ModulesPanel {
  #shown = "";

  // `samples` of /metrics tell whether there are modules at all.
  async refresh(samples) {
    panel.hidden = !samples.some(sample => "module" in sample.labels);
    if (!panel.hidden)
      this.#show(await loadModules());
  }

  #show(report) {
    // The buttons keep the focus as long as the list of modules is the same.
    const names = report.modules.map(module => module.name).join();
    if (names !== this.#shown)
      rows.replaceChildren(...report.modules.map(module => this.#row(module)));
    this.#shown = names;
    report.modules.forEach((module, i) => this.#fill(rows.rows[i], module));
    const latest = report.decisions.slice(-kShownDecisions).reverse();
    decisions.replaceChildren(...latest.map(decision => make("li", "",
      `${decision.module} ${decision.action} (${decision.rule}): ${decision.reason}, ${since(decision.seconds_ago)}`)));
    document.getElementById("decisions-title").hidden = latest.length === 0;
  }

  #row(module) {
    const row = make("tr", "");
    const name = make("th", "", module.name);
    name.scope = "row";
    row.append(name);
    for (let i = 0; i < 6; ++i)
      row.insertCell();
    const button = make("button", "switch");
    button.type = "button";
    button.addEventListener("click", () => this.#switch(button, module.name));
    row.lastElementChild.append(button);
    return row;
  }

  #fill(row, module) {
    const texts = [kStates[module.state] ?? module.state, percent(module.latency_saving), guesses(module.stats),
      `${module.integrity.failures} of ${module.integrity.checks}`, megabytes(module.memory_bytes)];
    texts.forEach((text, i) => { row.cells[i + 1].textContent = text; });
    const button = row.querySelector("button");
    button.dataset.to = isOff(module) ? "on" : "off";
    button.textContent = `Switch ${button.dataset.to}`;
    button.setAttribute("aria-label", `Switch ${module.name} ${button.dataset.to}`);
  }

  async #switch(button, name) {
    button.disabled = true;
    try {
      this.#show(await switchModule(name, button.dataset.to));
      note.textContent = "";
    } catch (error) {
      note.textContent = error.message;
    } finally {
      button.disabled = false;
      button.focus();
    }
  }
}
