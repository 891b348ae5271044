// The page: what was changed goes to the server, what comes back is shown. A quick answer comes first and is marked;
// the certified one replaces it.

import { epsilonChart, lawChart, percent, shareBar, short, tradeoffChart } from "./charts.js";

const at = (id) => document.getElementById(id);
const PAUSE = 150; // milliseconds without a change before a proof is asked for
const state = { plan: "", changes: {}, question: null, answers: null, view: null, solution: null, trial: false };
let begin = null, epsilons = [], deltas = [];
let waiting = null, asking = false, timer = null;
let number = 0, shown = 0; // of the last change or proof that was asked for, and of the last proof that is shown
let typed = false, fault = ""; // whether an epsilon is being typed, and what is wrong with the one that was

async function ask(task, more = {}) {
  if (fault) throw new Error(fault);
  const body = { plan: state.plan, changes: state.changes, ...more };
  const answer = await fetch(`api/${task}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || `error ${answer.status}`);
  return found;
}

function say(kind, words) {
  document.body.dataset.state = kind;
  at("status").textContent = words;
}

function tell(id, words, wrong = false) {
  at(id).textContent = words;
  at(id).classList.toggle("fault", wrong);
}

// What is shown is of another state than the controls: grey, and no risk at all, which could be too small.
function unproved(kind, words, instead) {
  say(kind, words);
  dim();
  put(at("odds"), null, "");
  put(at("advantage"), null, instead);
  tell("risk-words", "");
  at("tradeoff").replaceChildren();
  for (const each of document.querySelectorAll("#risk-numbers dd")) put(each, null, instead);
}

function dim() {
  for (const each of document.querySelectorAll("#question-table [data-field]")) each.classList.add("stale");
  for (const id of ["law-words", "laws", "boundings", "tradeoff", "risk-numbers", "explained"]) at(id).classList.add("stale");
}

// A comma is refused: it is a point to some and nothing to others.
function decimal(field) {
  const text = field.value.trim();
  if (text === "") return null;
  if (text.includes(",")) throw new Error(`“${text}” has a comma: write a point, as in 1.5, and no signs between thousands.`);
  if (!Number.isFinite(Number(text))) throw new Error(`“${text}” is not a number.`);
  return Number(text);
}

function make(tag, attributes = {}, ...inside) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") found.className = value;
    else if (name.startsWith("data-") || name.startsWith("aria-") || name === "scope" || name === "colspan") found.setAttribute(name, value);
    else found[name] = value;
  }
  found.append(...inside);
  return found;
}

function put(target, value, text) {
  if (value === null || value === undefined) delete target.dataset.value;
  else target.dataset.value = value;
  target.textContent = text;
}

// ---- a change: quick first, then certified

function changed(drag = null) {
  number++; // a proof that is on its way is of the state before
  forgetTrial();
  waiting = { drag, since: performance.now() };
  if (!fault) say("quick", "Being proved.");
  clearTimeout(timer);
  timer = setTimeout(proveSoon, PAUSE);
  if (!asking) quick();
}

function proveSoon() {
  if (asking) timer = setTimeout(proveSoon, 20); // a share that is dragged has its weights first
  else certify();
}

async function quick() {
  asking = true;
  while (waiting) {
    const { drag, since } = waiting, own = number;
    waiting = null;
    try {
      const found = await ask("quick", drag ? { drag } : {});
      if (drag) {
        state.changes.weights = found.changed.weights;
        state.changes.selection = found.changed.selection;
      }
      if (shown > own || fault || typed) continue;
      say("quick", "Quick estimate; the certified numbers follow.");
      showQuick(found);
      performance.measure("slider", { start: since, end: performance.now() });
    } catch (error) {
      unproved("error", error.message, "not proved");
    }
  }
  asking = false;
}

// The proof of the present state; what went wrong, if anything did.
async function certify() {
  const own = ++number;
  clearTimeout(timer);
  try {
    const found = await ask("certified", { question: state.question, answers: state.answers });
    if (own !== number) return "";
    if (found.superseded) return certify(); // two requests came in the other order, and this is the one that is wanted
    shown = own;
    state.view = found;
    if (found.law) state.question = found.law.query;
    showCertified(found);
    say("certified", "Certified.");
    account(); // what a release would spend
  } catch (error) {
    if (own === number) unproved("error", error.message, "not proved");
    return error.message;
  }
  return "";
}

// ---- what is shown

function showBudget(epsilon, delta) {
  const index = epsilons.findLastIndex((each) => each <= epsilon * (1 + 1e-12));
  at("epsilon").value = Math.max(index, 0);
  at("epsilon").setAttribute("aria-valuetext", short(epsilon));
  if (document.activeElement !== at("epsilon-exact")) at("epsilon-exact").value = epsilon;
  const place = deltas.findLastIndex((each) => each <= delta * (1 + 1e-12));
  at("delta").value = Math.max(place, 0);
  at("delta").setAttribute("aria-valuetext", short(delta));
  put(at("delta-shown"), delta, delta === 0 ? "0 (none)" : short(delta));
  at("other-chart").replaceChildren(epsilonChart(begin.deployments, epsilon, `Epsilon of ${begin.deployments.length} published deployments on a logarithmic line; this plan has ${short(epsilon)}.`));
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

function showQuick(found) {
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

function showCertified(view) {
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
}

function showUnit(unit) {
  at("unit").hidden = begin.one_number;
  at("unit-bounds").hidden = at("unit-cut").hidden = !unit.bounded;
  at("unit-words").textContent = unit.column === null
    ? "Each single row. If a person may have several rows, name the column that says whose a row is: write [unit] with column = \"...\" into the plan below."
    : `All rows with the same ${unit.column} together.${unit.bounded ? "" : " The plan makes one row of them first."}`;
  for (const name of ["rows", "groups"]) if (document.activeElement !== at(`unit-${name}`)) at(`unit-${name}`).value = unit[name];
}

// Rows stay as long as the questions do: a slider that is being dragged is not replaced under the hand.
function showQuestions(view) {
  const free = view.queries.filter((each, index) => each.share > 0 && each.margin === null && !view.questions[index].made);
  const body = document.querySelector("#question-table tbody");
  const kind = JSON.stringify(view.queries.map((each, index) => [each.query, each.kind, free.length > 1 && free.includes(each), view.questions[index].no_margin]));
  if (body.dataset.kind !== kind) {
    const active = document.activeElement?.id;
    const many = view.questions.filter((each) => !each.made).length > 1;
    body.replaceChildren(...view.queries.map((each, index) => questionRow(each, view.questions[index], index, free.length > 1 && free.includes(each), many)));
    body.dataset.kind = kind;
    if (active) at(active)?.focus();
  }
  view.queries.forEach((each, index) => {
    const row = body.children[index], texts = view.cells[index];
    const slider = row.querySelector("td.share input"), margin = row.querySelector("td.margin input");
    if (slider && (document.activeElement !== slider || !slider.matches(":active"))) slider.value = 100 * each.share;
    if (margin && document.activeElement !== margin) margin.value = each.margin ?? "";
    put(row.querySelector("td.share output"), each.share, texts.share);
    row.querySelector("td.share .why").textContent = each.margin !== null ? "by its margin" : free.length === 1 && free.includes(each) && view.queries.length > 1 ? "what the margins leave" : "";
    const values = { "half-width": each.half_width, "at half epsilon": each.at_half_epsilon, "at twice epsilon": each.at_twice_epsilon, "above limit": each.above_limit, error: null };
    for (const [name, value] of Object.entries(values)) {
      const cell = row.querySelector(`[data-field="${name.replaceAll(" ", "-")}"]`);
      put(cell, value, texts[name] || "–");
      cell.title = name === "above limit" && value === null ? each.no_limit : name === "error" ? each.error : "";
    }
  });
  at("no-sliders").hidden = view.queries.every((each) => each.margin === null);
  at("by-the-data").hidden = view.questions.every((each) => !each.no_margin);
}

function questionRow(each, facts, index, movable, removable) {
  const row = make("tr", { "data-query": each.query });
  const head = make("th", { scope: "row", title: facts.described }, make("span", {}, each.query, " ", make("span", { class: "kind quiet" }, each.kind)));
  if (removable && !facts.made) {
    const out = button("Remove", () => remove(each.query));
    out.className = "small";
    out.setAttribute("aria-label", `Remove ${each.query}`);
    head.append(out);
  }
  row.append(head);
  const share = make("td", { class: "share", "data-name": "Share" }), margin = make("td", { class: "margin", "data-name": "Wanted margin" });
  if (movable) {
    const slider = make("input", { type: "range", id: `share-${index}`, min: 0, max: 100, step: 0.5, "aria-label": `Share of ${each.query}, in percent` });
    slider.addEventListener("input", () => changed({ query: each.query, share: Number(slider.value) / 100 }));
    share.append(slider);
  }
  share.append(make("output"), " ", make("span", { class: "why quiet" }));
  if (facts.no_margin || facts.made) margin.append(make("span", { class: "quiet", title: facts.no_margin }, "by the data"));
  else {
    const field = make("input", { type: "text", inputMode: "decimal", id: `margin-${index}`, placeholder: "none", "aria-label": `Wanted margin of ${each.query}`, value: each.margin ?? "" });
    field.addEventListener("change", () => wanted(each.query, field));
    margin.append(field);
  }
  row.append(share, margin);
  for (const name of ["Half-width", "At half epsilon", "At twice epsilon", "Above limit", "Error"]) row.append(make("td", { "data-name": name, "data-field": name.toLowerCase().replaceAll(" ", "-") }));
  return row;
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

function showTable(found) {
  const text = (value) => value === null || value === "" ? "" : typeof value === "boolean" ? (value ? "yes" : "") : typeof value === "number" ? short(value) : String(value).replace("inf", "∞");
  const head = make("thead", {}, make("tr", {}, ...found.columns.map((each) => make("th", { scope: "col" }, each))));
  const body = make("tbody", {}, ...found.rows.map((row) => make("tr", {}, ...row.map((value, index) => make("td", { "data-name": found.columns[index] }, text(value))))));
  at("trial-table").replaceChildren(make("table", {}, head, body));
}

// ---- margins

async function wanted(query, field) {
  let margin = null;
  try {
    margin = decimal(field);
  } catch (error) {
    at("use-solution").hidden = true;
    return tell("solution", error.message, true);
  }
  (state.changes.margins ??= {})[query] = margin;
  if (state.changes.weights) delete state.changes.weights[query];
  number++;
  forgetTrial();
  unproved("quick", "Being proved.", "being proved");
  await solve();
  certify();
}

async function solve() {
  state.solution = null;
  at("use-solution").hidden = true;
  delete at("solution").dataset.value;
  tell("solution", "Solving.");
  try {
    const found = await ask("solve");
    state.solution = found.epsilon;
    put(at("solution"), found.epsilon, found.words);
    at("use-solution").textContent = `Take epsilon ${found.epsilon}`;
    at("use-solution").hidden = false;
  } catch (error) {
    tell("solution", error.message.startsWith("query: no question has a margin") ? "" : error.message, true);
  }
}

// ---- one more question

function addFields() {
  const kind = at("add-kind").value;
  return { kind, column: at("add-column").value, lower: decimal(at("add-lower")), upper: decimal(at("add-upper")), by: at("add-by").value, keys: at("add-keys").value };
}

function showAddFields() {
  const values = !at("add-kind").value.startsWith("count");
  for (const each of document.querySelectorAll("#add .of-values")) each.hidden = !values;
}

async function add() {
  try {
    const found = await ask("add", { form: addFields() });
    for (const name of ["column", "lower", "upper", "by", "keys"]) at(`add-${name}`).value = "";
    await edited(found, "add-words");
  } catch (error) {
    tell("add-words", error.message, true);
  }
}

async function remove(query) {
  try {
    await edited(await ask("remove", { query }), "remove-words");
    document.querySelector("#question-table button, #add summary").focus(); // the button that was pressed is gone
  } catch (error) {
    tell("remove-words", error.message, true);
  }
}

// A plan whose text the server has edited, with the changes that still hold.
async function edited(found, place) {
  for (const id of ["add-words", "remove-words", "plan-words"]) tell(id, "");
  tell(place, found.words);
  state.changes = found.changes;
  await newPlan(found.plan, place);
}

// ---- the account, made-up rows, the real ones

async function account() {
  const found = await ask("account").catch((error) => ({ reason: error.message }));
  at("ask-publish").hidden = Boolean(found.reason);
  at("no-account").textContent = found.reason ?? `Account ${found.account} has ${found.left} left. Publishing the real table would read ${found.source} and spend ${found.cost}.`;
  return found;
}

// Made-up rows are of the plan for which they were made; those of another one are taken away.
function forgetTrial() {
  if (!state.trial) return;
  state.trial = false;
  at("trial-table").replaceChildren();
  at("trial-words").textContent = "The plan has changed since rows were made up; publish made-up rows again to see it.";
}

async function trial() {
  const own = JSON.stringify([state.plan, state.changes]);
  at("trial-words").textContent = "Making rows up.";
  try {
    const found = await ask("trial");
    state.trial = true;
    if (own !== JSON.stringify([state.plan, state.changes])) return forgetTrial();
    showTable(found);
    at("trial-words").textContent = "Made-up rows: noise, intervals and cost are as they would be; the answers are not. Nothing was charged.";
  } catch (error) {
    at("trial-words").textContent = error.message;
  }
}

async function askPublish() {
  const found = await account();
  if (found.reason) return;
  at("publish-words").textContent = `This reads ${found.source} and charges account ${found.account}, which has ${found.left} left. The charge is ${found.cost}, and cannot be taken back.`;
  at("confirm-publish").dataset.cost = found.cost;
  at("publish").showModal();
}

async function publish() {
  const request = at("publish-request").value.trim();
  if (!request) return at("publish-request").focus();
  at("publish").close();
  at("trial-words").textContent = "Charging, reading, drawing.";
  try {
    const found = await ask("publish", { request, confirmed: at("confirm-publish").dataset.cost });
    state.trial = false;
    showTable(found);
    at("trial-words").textContent = `The real table, charged to the ledger as ${request}; the account has ${found.left} left. Keep its files: `;
    for (const [name, text] of Object.entries(found.files)) at("trial-words").append(button(name, () => save(name, text)), " ");
    account();
  } catch (error) {
    at("trial-words").textContent = `Not published: ${error.message}`;
  }
}

// ---- files

function button(words, act) {
  const found = make("button", { type: "button" }, words);
  found.addEventListener("click", act);
  return found;
}

function save(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text])), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function exported(name) {
  try {
    const found = await ask("export", { name });
    save(found.name, found.text);
  } catch (error) {
    tell("plan-words", error.message, true);
  }
}

// ---- the controls

function numberFields() {
  const kind = at("number-kind").value;
  const what = kind === "count" ? "It is" : "Each value is";
  at("lower-words").textContent = `${what} at least`;
  at("upper-words").textContent = `${what} at most`;
  return { kind, lower: decimal(at("number-lower")), upper: decimal(at("number-upper")), rows: Number(at("number-rows").value) };
}

// Show another plan; what is wrong with it is said at `place`, beside what was pressed.
async function newPlan(text, place) {
  state.plan = at("plan-text").value = text;
  state.answers = state.question = null;
  put(at("solution"), null, "");
  at("use-solution").hidden = true;
  number++;
  forgetTrial();
  unproved("quick", "Being proved.", "being proved");
  const wrong = await certify();
  if (wrong) {
    tell(place, wrong, true);
    account();
  }
  columns();
}

async function columns() {
  const found = await ask("columns").catch(() => ({ columns: [] }));
  at("column-names").replaceChildren(...found.columns.map((each) => make("option", { value: each })));
}

async function newBounds() {
  try {
    for (const name of ["rows", "groups"]) {
      const value = decimal(at(`unit-${name}`));
      if (!Number.isInteger(value) || value < 1) throw new Error(`${name === "rows" ? "Rows" : "Groups"} must be a whole number, at least 1.`);
      if (value !== state.view.unit[name]) state.changes[name] = value;
    }
    tell("unit-fault", "");
    number++;
    forgetTrial();
    unproved("quick", "Being proved.", "being proved");
    tell("unit-fault", await certify(), true);
  } catch (error) {
    tell("unit-fault", error.message, true);
  }
}

async function newNumber() {
  try {
    const { plan } = await ask("number", { number: numberFields() });
    state.changes.weights = undefined;
    state.changes.margins = {};
    tell("number-words", "");
    await newPlan(plan, "number-words");
  } catch (error) {
    tell("number-words", error.message, true);
    unproved("error", error.message, "not proved");
  }
}

async function checkText() {
  const text = at("plan-text").value;
  try {
    const found = await ask("kept", { before: state.plan, plan: text });
    state.changes = found.changes;
    tell("plan-words", found.words);
    await newPlan(text, "plan-words");
  } catch (error) {
    tell("plan-words", error.message, true);
    unproved("error", error.message, "not proved");
  }
}

function newAnswers() {
  try {
    state.answers = [0, 1, 2].map((each) => decimal(at(`answer-${each}`)));
    tell("answer-words", "");
    certify().then((wrong) => tell("answer-words", wrong, true));
  } catch (error) {
    tell("answer-words", error.message, true);
  }
}

// ---- the epsilon that is typed: taken when it is complete, and nothing is certified before

function takeEpsilon(value) {
  typed = false;
  fault = "";
  tell("epsilon-words", "");
  at("epsilon-exact").removeAttribute("aria-invalid");
  state.changes.epsilon = value;
  changed();
}

function beginEpsilon() {
  typed = true;
  number++; // a proof that is on its way is of the epsilon before
  waiting = null;
  clearTimeout(timer);
  say("quick", "Press Enter to take the epsilon that you type.");
}

function endEpsilon() {
  if (!typed) return;
  let words = "Epsilon must be above 0 and at most 100.";
  try {
    const value = decimal(at("epsilon-exact"));
    if (value !== null && value > 0 && value <= 100) return takeEpsilon(value);
  } catch (error) {
    words = error.message;
  }
  fault = words;
  tell("epsilon-words", words, true);
  at("epsilon-exact").setAttribute("aria-invalid", "true");
  unproved("error", "Not certified: there is no valid epsilon.", "not proved");
}

function listen() {
  at("epsilon").addEventListener("input", () => {
    at("epsilon-exact").value = epsilons[Number(at("epsilon").value)];
    takeEpsilon(epsilons[Number(at("epsilon").value)]);
  });
  at("epsilon-exact").addEventListener("input", beginEpsilon);
  for (const end of ["change", "blur"]) at("epsilon-exact").addEventListener(end, endEpsilon);
  at("delta").addEventListener("input", () => {
    state.changes.delta = deltas[Number(at("delta").value)];
    changed();
  });
  at("use-solution").addEventListener("click", () => takeEpsilon(state.solution));
  at("even-shares").addEventListener("click", () => { state.changes.weights = undefined; state.changes.selection = undefined; changed(); });
  at("law-question").addEventListener("change", () => { state.question = at("law-question").value; state.answers = null; certify(); });
  for (const index of [0, 1, 2]) at(`answer-${index}`).addEventListener("change", newAnswers);
  for (const name of ["kind", "lower", "upper", "rows"]) at(`number-${name}`).addEventListener("change", newNumber);
  for (const name of ["rows", "groups"]) at(`unit-${name}`).addEventListener("change", newBounds);
  at("add-kind").addEventListener("change", showAddFields);
  at("add-question").addEventListener("click", add);
  at("apply-plan").addEventListener("click", checkText);
  at("make-trial").addEventListener("click", trial);
  at("ask-publish").addEventListener("click", askPublish);
  at("confirm-publish").addEventListener("click", publish);
  at("cancel-publish").addEventListener("click", () => at("publish").close());
}

function showOthers() {
  const rows = begin.deployments.map((each) => make("tr", {},
    make("th", { scope: "row" }, each.who), make("td", { "data-name": "What" }, `${each.what}, ${each.year}`),
    make("td", { "data-name": "Epsilon", "data-value": each.epsilon }, short(each.epsilon)), make("td", { "data-name": "Delta" }, short(each.delta)),
    make("td", { "data-name": "For each" }, each.note ? `${each.unit} (${each.note})` : each.unit),
    make("td", { "data-name": "Source" }, make("a", { href: each.link, rel: "noreferrer", target: "_blank" }, each.source))));
  document.querySelector("#other-table tbody").replaceChildren(...rows);
}

async function open() {
  begin = await (await fetch("start")).json();
  epsilons = begin.epsilons;
  deltas = begin.deltas;
  at("epsilon").max = epsilons.length - 1;
  at("delta").max = deltas.length - 1;
  at("version").textContent = begin.version;
  at("number").hidden = !begin.one_number;
  at("exports").replaceChildren(...begin.exports.map((name) => button(`Save ${name}`, () => exported(name))));
  state.plan = at("plan-text").value = begin.plan;
  showOthers();
  showAddFields();
  listen();
  if (await certify()) account();
  columns();
}

open().catch((error) => say("error", error.message));
