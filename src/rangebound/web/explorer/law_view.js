// The law of a cell, tables of numbers, and what others have used.

import { lawChart, short } from "./charts.js";
import { at, make } from "./elements.js";
import { state } from "./page_state.js";

export function showLaw(view) {
  const law = view.law, names = view.queries.filter((each, index) => !view.questions[index].made).map((each) => each.query);
  at("law-question").replaceChildren(...names.map((each) => make("option", { value: each, selected: each === law.query }, each)));
  at("laws").hidden = at("boundings").hidden = Boolean(law.reason);
  for (const index of [0, 1, 2]) at(`answer-${index}`).disabled = Boolean(law.reason);
  if (law.reason) {
    at("law-words").textContent = `No picture for this question: ${law.reason}. What each number will look like stands above.`;
    return;
  }
  const limit = law.limit === null ? `No limit is proved: ${law.no_limit}.` : `Its worst mean absolute error is ${short(law.worst_mae)}; no private mechanism has less than ${law.limit_text}.`;
  at("law-words").textContent = `Published by ${law.mechanism}. ${limit} Dashed: the true number. Triangle: the mean of what is published. Band: 95 of 100 published numbers. Heights are probabilities on one scale: of a spike, of a bar, or under a curve of a strip as wide as the spike.`;
  const sizes = ["small", "middling", "large"];
  at("laws").replaceChildren(...law.cells.map((cell, index) => {
    if (document.activeElement !== at(`answer-${index}`)) at(`answer-${index}`).value = cell.answer;
    const words = `A ${sizes[index]} cell, true number ${short(cell.answer)}: bias ${short(cell.bias)}, 95 of 100 from ${short(cell.common[0])} to ${short(cell.common[1])}`;
    const spikes = cell.spikes.filter((each) => each[1] >= 0.0005).map(([place, mass]) => `, spike of ${short(100 * mass)} % at ${short(place)}`).join("");
    const figure = make("figure", { "data-cell": sizes[index], "data-bias": cell.bias, "data-mae": cell.mae });
    figure.append(lawChart(cell, words + spikes), make("figcaption", {}, `${words[0]}${words.slice(1)}${spikes}; mean absolute error ${short(cell.mae)}.`));
    return figure;
  }));
  const head = make("tr", {}, make("th", { scope: "col" }, "Noise"), make("th", { scope: "col" }, "Scale"), ...law.cells.flatMap((cell) => [make("th", { scope: "col" }, `Bias at ${short(cell.answer)}`), make("th", { scope: "col" }, `Error at ${short(cell.answer)}`)]), make("th", { scope: "col" }, "Spike, small cell"), make("th", { scope: "col" }, "Worst error"));
  at("boundings").querySelector("thead").replaceChildren(head);
  const rows = law.boundings.map((each) => {
    const row = make("tr", { "data-bounding": each.bounding }, make("th", { scope: "row" }, `${each.bounding}${each.outside ? " (leaves the range)" : ""}`));
    if (each.reason) return row.append(make("td", { colspan: 9 }, each.reason)), row;
    const names = [...head.children].map((one) => one.textContent);
    const cell = (name, value, text) => make("td", { "data-of": name, "data-value": value, "data-name": names[row.children.length] }, text ?? short(value));
    row.append(cell("scale", each.scale, `${each.noise} ${short(each.scale)}`));
    law.cells.forEach((_, index) => {
      row.append(cell(`bias-${index}`, each.bias[index], Math.abs(each.bias[index]) < 1e-6 ? "0" : short(each.bias[index])));
      row.append(cell(`mae-${index}`, each.mae[index]));
    });
    row.append(cell("spike", each.spike[0], each.spike[0] ? `${short(100 * each.spike[0])} %` : "none"));
    row.append(cell("worst-mae", each.worst_mae));
    return row;
  });
  if (law.limit !== null) rows.push(make("tr", {}, make("th", { scope: "row" }, "proved limit of all"), make("td", { colspan: 8, class: "gap" }), make("td", { "data-of": "limit", "data-value": law.limit, "data-name": "Worst error" }, law.limit_text)));
  at("boundings").querySelector("tbody").replaceChildren(...rows);
}

export function showTable(found) {
  const text = (value) => value === null || value === "" ? "" : typeof value === "boolean" ? (value ? "yes" : "") : typeof value === "number" ? short(value) : String(value).replace("inf", "∞");
  const head = make("thead", {}, make("tr", {}, ...found.columns.map((each) => make("th", { scope: "col" }, each))));
  const body = make("tbody", {}, ...found.rows.map((row) => make("tr", {}, ...row.map((value, index) => make("td", { "data-name": found.columns[index] }, text(value))))));
  at("trial-table").replaceChildren(make("table", {}, head, body));
}

export function showOthers() {
  const rows = state.begin.deployments.map((each) => make("tr", {},
    make("th", { scope: "row" }, each.who), make("td", { "data-name": "What" }, `${each.what}, ${each.year}`),
    make("td", { "data-name": "Epsilon", "data-value": each.epsilon }, short(each.epsilon)), make("td", { "data-name": "Delta" }, short(each.delta)),
    make("td", { "data-name": "For each" }, each.note ? `${each.unit} (${each.note})` : each.unit),
    make("td", { "data-name": "Source" }, make("a", { href: each.link, rel: "noreferrer", target: "_blank" }, each.source))));
  document.querySelector("#other-table tbody").replaceChildren(...rows);
}
