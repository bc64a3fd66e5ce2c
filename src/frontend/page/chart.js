// A line chart of the last minutes, as SVG, with its numbers as text beside it.
import { make } from "./dom.js";

const kSvg = "http://www.w3.org/2000/svg";
const kPoints = 90;  // at one each 2 s: three minutes
const kWidth = 300;
const kHeight = 80;
const kTableRows = 10;

function svg(name, attributes) {
  const node = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes))
    node.setAttribute(key, value);
  return node;
}

export class Chart {
  #series;
  #format;
  #title;
  #picture = svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", role: "img" });
  #value = make("p", "value", "–");
  #rows = document.createElement("tbody");

  // `names`: of one or two series; `format` makes text of a number. `floor`: the least upper end.
  constructor({ title, names, format, floor }) {
    this.#title = title;
    this.#format = value => (Number.isNaN(value) ? "–" : format(value));
    this.#series = names.map(name => ({ name, values: [] }));
    this.floor = floor;
    this.node = make("section", "chart");
    const heading = make("h2", "", title);
    this.node.append(heading, this.#value, this.#picture, this.#textAlternative(names));
  }

  add(...values) {
    this.#series.forEach((series, i) => {
      series.values.push(values[i]);
      series.values.splice(0, series.values.length - kPoints);
    });
    this.#value.textContent = values.map(this.#format).join(" / ");
    this.#draw();
    this.#fillTable();
  }

  #textAlternative(names) {
    const details = make("details", "");
    const head = document.createElement("tr");
    head.append(...["Seconds ago", ...names].map(name => make("th", "", name)));
    head.querySelectorAll("th").forEach(cell => {
      cell.scope = "col";
    });
    const table = document.createElement("table");
    const thead = document.createElement("thead");
    thead.append(head);
    table.append(thead, this.#rows);
    details.append(make("summary", "", `${this.#title} as a table`), table);
    return details;
  }

  #draw() {
    const all = this.#series.flatMap(series => series.values).filter(value => !Number.isNaN(value));
    const top = Math.max(this.floor, ...all) * 1.08;
    const parts = [0, 0.5, 1].map(share => svg("line", {
      class: "rule", x1: 0, x2: kWidth, y1: kHeight * share, y2: kHeight * share }));
    this.#series.forEach((series, i) => {
      const points = series.values.map((value, at) => [at, value]).filter(([, value]) => !Number.isNaN(value))
        .map(([at, value]) => `${kWidth * (kPoints - series.values.length + at) / (kPoints - 1)},`
          + `${kHeight - value / top * kHeight}`);
      parts.push(svg("polyline", { class: i === 0 ? "trace" : "trace second", points: points.join(" ") }));
    });
    this.#picture.replaceChildren(...parts);
    this.#picture.setAttribute("aria-label", this.#series.map(series => {
      const known = series.values.filter(value => !Number.isNaN(value));
      return known.length === 0 ? `${series.name}: no values yet`
        : `${series.name}: now ${this.#format(series.values.at(-1))}, highest ${this.#format(Math.max(...known))}`;
    }).join("; "));
  }

  #fillTable() {
    const count = this.#series[0].values.length;
    const rows = [];
    for (let back = 0; back < Math.min(count, kTableRows); ++back) {
      const row = document.createElement("tr");
      row.append(make("td", "", String(back * 2)),
        ...this.#series.map(series => make("td", "", this.#format(series.values.at(-1 - back)))));
      rows.push(row);
    }
    this.#rows.replaceChildren(...rows);
  }
}
