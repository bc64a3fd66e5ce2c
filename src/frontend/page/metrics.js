// The metrics view: scrapes /metrics while it is shown.
import { loadMetrics } from "./api.js";
import { Chart } from "./chart.js";
import { ModulesPanel } from "./modules.js";
import { parseMetrics, readings } from "./prometheus_text.js";

const kInterval = 2000;  // ms

const state = document.getElementById("metrics-state");

const charts = {
  tokens: new Chart({ title: "Generated tokens per second", names: ["Tokens per second"],
    format: value => value.toFixed(1), floor: 10 }),
  firstToken: new Chart({ title: "Time to first token (ms)", names: ["Milliseconds"],
    format: value => value.toFixed(0), floor: 100 }),
  kv: new Chart({ title: "KV cache in use (%)", names: ["Percent"],
    format: value => value.toFixed(1), floor: 100 }),
  requests: new Chart({ title: "Running / waiting", names: ["Running", "Waiting"],
    format: value => String(value), floor: 4 }),
};

export class MetricsView {
  #timer = 0;
  #before = null;
  #modules = new ModulesPanel();

  constructor() {
    document.getElementById("charts").append(...Object.values(charts).map(chart => chart.node));
  }

  start() {
    this.stop();
    this.#timer = setInterval(() => this.#scrape(), kInterval);
    this.#scrape();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#before = null;
  }

  async #scrape() {
    if (document.hidden)
      return;
    try {
      const samples = parseMetrics(await loadMetrics());
      this.#setState("Every 2 seconds, the last 3 minutes.");
      this.#show(samples, performance.now());
      await this.#modules.refresh(samples);
    } catch (error) {
      this.#before = null;
      this.#setState(`${error.message} Trying again every 2 seconds.`);
    }
  }

  // Only changes are written: the region is read out.
  #setState(text) {
    if (state.textContent !== text)
      state.textContent = text;
  }

  #show(samples, time) {
    const before = this.#before ?? { samples, time: time - kInterval };
    this.#before = { samples, time };
    const now = readings(before.samples, samples, (time - before.time) / 1000);
    charts.tokens.add(now.tokensPerSecond);
    charts.firstToken.add(now.firstTokenMs);
    charts.kv.add(now.kvPercent);
    charts.requests.add(now.running, now.waiting);
  }
}
