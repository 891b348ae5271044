// What is shown of a plan: budget, risk, unit, questions, the law of a cell, tables; and what others have used.

import { epsilonChart, lawChart, percent, shareBar, short, tradeoffChart } from "./charts.js";
import { at, make, put, state, tell } from "./elements.js";

function showBudget(epsilon, delta) {
  const index = state.epsilons.findLastIndex((each) => each <= epsilon * (1 + 1e-12));
  at("epsilon").value = Math.max(index, 0);
  at("epsilon").setAttribute("aria-valuetext", short(epsilon));
  if (document.activeElement !== at("epsilon-exact")) at("epsilon-exact").value = epsilon;
  const place = state.deltas.findLastIndex((each) => each <= delta * (1 + 1e-12));
  at("delta").value = Math.max(place, 0);
  at("delta").setAttribute("aria-valuetext", short(delta));
  put(at("delta-shown"), delta, delta === 0 ? "0 (none)" : short(delta));
  at("other-chart").replaceChildren(epsilonChart(state.begin.deployments, epsilon, `Epsilon of ${state.begin.deployments.length} published deployments on a logarithmic line; this plan has ${short(epsilon)}.`));
}

function showRisk(risk, words) {
  at("odds").textContent = risk.odds;
  put(at("advantage"), risk.advantage, risk.texts.advantage);
  tell("risk-words", words);
  at("tradeoff").replaceChildren(tradeoffChart(risk.tradeoff, `Trade-off curve: with 10 % false alarms an attacker misses at least ${short(100 * risk.tradeoff.find((each) => each[0] === 0.1)[1])} %.`));
  const facts = [
    ["Advantage: hits less false alarms, at most", "advantage", risk.advantage],
    ["Right about a coin, on average at most", "success", risk.success],
    ["Certainty after the worst output, from 50 %", "posterior", risk.posterior],
    ...risk.reconstruction.map(([before, after], index) => [`Reconstruct a record that is guessed with ${short(100 * before)} %`, `reconstruction-${index}`, after]),
    ["Mu of Gaussian differential privacy", "mu", risk.mu],
  ];
  at("risk-numbers").replaceChildren(...facts.flatMap(([words, name, value]) => [make("dt", {}, words), make("dd", { "data-risk": name, "data-value": value }, risk.texts[name])]));
}

// What stays in sight while one edits: the risk, and the half-width of every number.
function showSight(risk, widths) {
  const facts = [["Attacker gains", risk.texts.advantage], ["Mu", risk.texts.mu], ...widths];
  at("in-sight").replaceChildren(...facts.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text))));
}

function showShares(queries) {
  const parts = queries.filter((each) => each.share > 0);
  at("share-bar").hidden = parts.length < 2;
  at("share-bar").replaceChildren(shareBar(parts, `Shares of the budget: ${parts.map((each) => `${each.query} ${percent(each.share)}`).join(", ")}.`));
}

export function showQuick(found) {
  showBudget(found.budget.epsilon, found.budget.delta);
  showRisk(found.risk, "The most that this epsilon and delta allow, whatever the noise; what this plan allows is being proved, and is not more.");
  showSight(found.risk, found.queries.filter((each) => each.half_width !== null).map((each) => [each.query, `≈ ± ${short(each.half_width)}`]));
  showShares(found.queries);
  for (const each of found.queries) {
    const row = document.querySelector(`#question-table tr[data-query="${CSS.escape(each.query)}"]`);
    if (!row) continue;
    const slider = row.querySelector("td.share input");
    if (slider && document.activeElement !== slider) slider.value = 100 * each.share;
    put(row.querySelector("td.share output"), each.share, `≈ ${percent(each.share)}`);
    if (each.half_width !== null) put(row.querySelector("[data-field=half-width]"), each.half_width, `≈ ${short(each.half_width)}`);
  }
  dim();
}

export function showCertified(view) {
  for (const each of document.querySelectorAll(".stale")) each.classList.remove("stale");
  at("title").textContent = view.title || "";
  document.title = view.title || "rangebound explore";
  put(at("level"), view.level, `${short(100 * view.level)} %`);
  showBudget(view.budget.epsilon, view.budget.delta);
  at("hazards").hidden = view.warnings.length === 0;
  at("warnings").replaceChildren(...view.warnings.map((each) => make("li", {}, `Warning: ${each}.`)));
  showRisk(view.risk, "");
  at("terms").textContent = view.terms;
  showSight(view.risk, view.queries.map((each, index) => {
    const about = view.expected?.[index]?.half_width ?? null;
    const sampled = view.expected?.[index]?.population ?? null;
    const own = each.half_width !== null ? `± ${view.cells[index]["half-width"]}` : about !== null ? `about ± ${short(about)}` : "by the data";
    return [each.query, sampled === null ? own : `${own}; population ± ${short(sampled)} at most`];
  }));
  showUnit(view.unit);
  showShares(view.queries);
  showQuestions(view);
  showLaw(view);
  at("explained").textContent = view.explained;
  at("even-shares").hidden = !state.changes.weights;
  showText(view.text);
}

function showUnit(unit) {
  at("unit").hidden = state.begin.file === null;
  at("unit-bounds").hidden = at("unit-cut").hidden = at("unit-example").hidden = !unit.bounded;
  const each = unit.column === "?" ? "nobody" : `no ${unit.column}`;
  at("unit-example").textContent = `Such as 10 and 3, if ${each} has more than 10 rows in one town, or rows in more than 3 towns (groups, where you ask by town).`;
  at("unit-words").textContent = unit.column === "?"
    ? "Still to be said: name the column that says whose a row is, such as that of a person or a card; or protect each single row, if nobody has two."
    : unit.column === null
    ? "Each single row. If a person may have several rows, name the column that says whose a row is."
    : `All rows with the same ${unit.column} together.${unit.bounded ? "" : " The plan makes one row of them first."}`;
  const open = unit.column === "?", field = at("unit-column");
  at("unit-none").hidden = !open;
  field.placeholder = open ? "such as person_id" : "none: each row";
  if (document.activeElement !== field) field.value = open ? "" : unit.column ?? "";
  for (const name of ["rows", "groups"]) if (document.activeElement !== at(`unit-${name}`)) at(`unit-${name}`).value = unit[name];
}

// Rows stay as long as the questions do: a slider that is being dragged is not replaced under the hand.
function showQuestions(view) {
  const free = view.queries.filter((each, index) => each.share > 0 && each.margin === null && !view.questions[index].made);
  const body = document.querySelector("#question-table tbody");
  const kind = JSON.stringify(view.queries.map((each, index) => [each.query, each.kind, free.length > 1 && free.includes(each), view.questions[index].no_margin, view.unit.bounded, Object.keys(view.questions[index].bounds)]));
  if (body.dataset.kind !== kind) {
    const active = document.activeElement?.id;
    body.replaceChildren(...view.queries.map((each, index) => questionRow(each, view.questions[index], index, free.length > 1 && free.includes(each), view.unit.bounded)));
    body.dataset.kind = kind;
    if (active) at(active)?.focus();
  }
  view.queries.forEach((each, index) => {
    const row = body.children[index], texts = view.cells[index];
    const slider = row.querySelector("td.share input"), margin = row.querySelector("td.margin input");
    if (slider && (document.activeElement !== slider || !slider.matches(":active"))) slider.value = 100 * each.share;
    if (margin && document.activeElement !== margin) margin.value = each.margin ?? "";
    if (margin) margin.setAttribute("aria-invalid", "false"), tell(`margin-fault-${index}`, "");
    for (const [name, value] of Object.entries(view.questions[index].bounds)) {
      const field = row.querySelector(`input[data-bound=${name}]`);
      if (field && document.activeElement !== field) field.value = value ?? "";
      if (field) field.placeholder = view.unit[name];
    }
    put(row.querySelector("td.share output"), each.share, texts.share);
    row.querySelector("td.share .why").textContent = each.margin !== null ? "by its margin" : free.length === 1 && free.includes(each) && view.queries.length > 1 ? "what the margins leave" : "";
    const values = { "half-width": each.half_width, "at half epsilon": each.at_half_epsilon, "at twice epsilon": each.at_twice_epsilon, "above limit": each.above_limit, error: null };
    for (const [name, value] of Object.entries(values)) {
      const cell = row.querySelector(`[data-field="${name.replaceAll(" ", "-")}"]`);
      put(cell, value, texts[name] || "–");
      cell.title = name === "above limit" && value === null ? each.no_limit : name === "error" ? each.error : "";
    }
    const expected = view.expected?.[index];
    if (expected) row.querySelector("[data-field=half-width]").append(...expectedWords(each, expected));
  });
  at("hopeless").hidden = !view.expected?.some((each) => each.hopeless);
  at("refused").hidden = !view.cells.some((each) => each["at half epsilon"] === "refused");
  at("no-sliders").hidden = view.queries.every((each) => each.margin === null);
  at("by-the-data").hidden = view.questions.every((each) => !each.no_margin);
}

// The half-width in a table of about this many rows, where it is not that of every table, and whether that is of any use.
function expectedWords(each, expected) {
  const width = each.half_width === null && expected.half_width !== null
    ? [make("span", { class: "at-rows", "data-value": expected.half_width }, `about ${short(expected.half_width)} for ${expected.rows === 1 ? "one row" : `${short(expected.rows)} rows`}`)] : [];
  if (expected.population !== null) width.push(make("span", { class: "at-rows", "data-population": expected.population }, `at most about ${short(expected.population)} for the population`));
  return expected.hopeless ? [...width, make("span", { class: "fault at-rows" }, `Hopeless: ${expected.hopeless}.`)] : width;
}

function questionRow(each, facts, index, movable, bounded) {
  const row = make("tr", { "data-query": each.query });
  const head = make("th", { scope: "row", title: facts.described }, make("span", {}, each.query, " ", make("span", { class: "kind quiet" }, each.kind)));
  if (!facts.made) {
    head.append(make("button", { type: "button", class: "small", "aria-label": `Remove ${each.query}` }, "Remove"));
  }
  if (bounded && !facts.made && Object.keys(facts.bounds).length) head.append(boundsForm(each, facts, index));
  row.append(head);
  const share = make("td", { class: "share", "data-name": "Share" }), margin = make("td", { class: "margin", "data-name": "Wanted margin" });
  if (movable) {
    share.append(make("input", { type: "range", id: `share-${index}`, min: 0, max: 100, step: 0.5, "aria-label": `Share of ${each.query}, in percent` }));
  }
  share.append(make("output"), " ", make("span", { class: "why quiet" }));
  if (facts.no_margin || facts.made) margin.append(make("span", { class: "quiet", title: facts.no_margin }, "by the data"));
  else {
    const field = make("input", { type: "text", inputMode: "decimal", id: `margin-${index}`, placeholder: "none", "aria-label": `Wanted margin of ${each.query}`, "aria-describedby": `margin-fault-${index}`, value: each.margin ?? "" });
    margin.append(field, make("output", { id: `margin-fault-${index}` }));
  }
  row.append(share, margin);
  for (const name of ["Half-width", "At half epsilon", "At twice epsilon", "Above limit", "Error"]) row.append(make("td", { "data-name": name, "data-field": name.toLowerCase().replaceAll(" ", "-") }));
  return row;
}

// Contribution bounds of one question, closed unless it has some.
function boundsForm(each, facts, index) {
  const found = make("details", { class: "own", open: Object.values(facts.bounds).some((value) => value !== null) }, make("summary", {}, "Own bounds"));
  for (const name of Object.keys(facts.bounds)) {
    const field = make("input", { type: "text", inputMode: "numeric", "data-bound": name, "aria-label": `${name === "rows" ? "Rows" : "Groups"} of each that count in ${each.query}` });
    found.append(make("label", {}, name, " ", field));
  }
  found.append(make("output", { id: `bounds-words-${index}` }));
  return found;
}

const UNSAVED = "Not saved yet.";

// Show the text with all changes, unless somebody is editing it; and whether its file says the same.
export function showText(text) {
  if (!state.edited) state.shownText = at("plan-text").value = text;
  if (text !== state.opened) tell("save-words", UNSAVED);
  else if (at("save-words").textContent === UNSAVED) tell("save-words", "");
}

// What is shown is of another state than the controls.
export function dim() {
  for (const each of document.querySelectorAll("#question-table [data-field]")) each.classList.add("stale");
  for (const id of ["law-words", "laws", "boundings", "tradeoff", "risk-numbers", "explained", "terms"]) at(id).classList.add("stale");
}

function showLaw(view) {
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
