// What is shown of a plan: budget, risk, unit, questions.

import { epsilonChart, percent, shareBar, short, tradeoffChart } from "./charts.js";
import { at, make, put, tell } from "./elements.js";
import { showLaw } from "./law_view.js";
import { state } from "./page_state.js";

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
  showAttack(risk);
}

function showShares(queries) {
  const parts = queries.filter((each) => each.share > 0);
  at("share-bar").hidden = parts.length < 2;
  at("share-bar").replaceChildren(shareBar(parts, `Shares of the budget: ${parts.map((each) => `${each.query} ${percent(each.share)}`).join(", ")}.`));
}

export function showQuick(found) {
  showBudget(found.budget.epsilon, found.budget.delta);
  showRisk(found.risk, "The most that this epsilon and delta allow, whatever the noise; what this plan allows is being proved, and is not more.");
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

function showAttack(risk) {
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
  for (const id of ["law-words", "laws", "boundings", "tradeoff", "risk-numbers", "explained"]) at(id).classList.add("stale");
}
