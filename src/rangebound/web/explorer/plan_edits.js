// What changes the plan: margins, questions, bounds, its unit.

import { at, decimal, tell } from "./elements.js";
import { ask, state } from "./page_state.js";
import { newPlan, settleText } from "./plan_file.js";
import { certify, provedAnew, unproved } from "./proof.js";

// What is wrong with a number is said at its field.
function mark(field, words) {
  field.setAttribute("aria-invalid", words ? "true" : "false");
  tell(field.getAttribute("aria-describedby"), words, true);
}

export async function wanted(query, field) {
  let margin = null;
  try {
    margin = decimal(field);
  } catch (error) {
    return mark(field, error.message);
  }
  (state.changes.margins ??= {})[query] = margin;
  if (state.changes.weights) delete state.changes.weights[query];
  const wrong = await provedAnew();
  mark(field, wrong && state.wrong === "budget.epsilon" ? "Needs a larger epsilon: take one that is offered below." : wrong);
}

// About how many rows the table has: nothing of the plan changes.
export function newRows() {
  try {
    state.rows = decimal(at("about-rows"));
    if (state.rows !== null && !(state.rows >= 1)) throw new Error("Rows must be a number, at least 1.");
    tell("about-words", ABOUT);
  } catch (error) {
    state.rows = null;
    tell("about-words", error.message, true);
  }
  certify();
}

const ABOUT = at("about-words").textContent;

// Bounds that one question has for itself; an empty field leaves those of the unit.
export async function ownBounds(row) {
  const place = row.querySelector("details.own output").id;
  try {
    await settleText();
    const bounds = Object.fromEntries([...row.querySelectorAll("[data-bound]")].map((field) => [field.dataset.bound, decimal(field)]));
    await edited(await ask("bounds", { query: row.dataset.query, bounds }), place);
  } catch (error) {
    tell(place, error.message, true);
  }
}

// The values of a column to group by: those that the plan lists already are taken as they are.
export function showKeys() {
  const known = state.view?.keys[at("add-by").value.trim()];
  at("add-keys").placeholder = known ? `as the plan has them: ${known.join(", ")}` : "north, south";
}

// An end of a range: a number, or a day.
function end(field) {
  const text = field.value.trim();
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? text : decimal(field);
}

function addFields() {
  const kind = at("add-kind").value;
  return { kind, column: at("add-column").value, lower: end(at("add-lower")), upper: end(at("add-upper")), by: at("add-by").value, keys: at("add-keys").value };
}

export function showAddFields() {
  const values = !at("add-kind").value.startsWith("count");
  for (const each of document.querySelectorAll("#add .of-values")) each.hidden = !values;
}

export async function add() {
  try {
    await settleText();
    const found = await ask("add", { form: addFields() });
    for (const name of ["column", "lower", "upper", "by", "keys"]) at(`add-${name}`).value = "";
    showKeys();
    await edited(found, "add-words");
  } catch (error) {
    tell("add-words", error.message, true);
  }
}

export async function remove(query) {
  try {
    await settleText();
    await edited(await ask("remove", { query }), "remove-words");
    document.querySelector("#question-table button, #add summary").focus(); // the button that was pressed is gone
  } catch (error) {
    tell("remove-words", error.message, true);
  }
}

// A plan whose text the server has edited, with the changes that still hold.
async function edited(found, place) {
  for (const id of ["add-words", "remove-words", "plan-words", "unit-fault"]) tell(id, "");
  tell(place, found.words);
  state.changes = found.changes;
  await newPlan(found.plan, place);
}

function numberFields() {
  const kind = at("number-kind").value;
  const what = kind === "count" ? "It is" : "Each value is";
  at("lower-words").textContent = `${what} at least`;
  at("upper-words").textContent = `${what} at most`;
  return { kind, lower: decimal(at("number-lower")), upper: decimal(at("number-upper")), rows: Number(at("number-rows").value) };
}

export async function newUnit(column) {
  try {
    await settleText();
    await edited(await ask("unit", { column }), "unit-fault");
  } catch (error) {
    tell("unit-fault", error.message, true);
  }
}

export async function newBounds() {
  try {
    for (const name of ["rows", "groups"]) {
      const value = decimal(at(`unit-${name}`));
      if (!Number.isInteger(value) || value < 1) throw new Error(`${name === "rows" ? "Rows" : "Groups"} must be a whole number, at least 1.`);
      if (value !== state.view.unit[name]) state.changes[name] = value;
    }
    tell("unit-fault", "");
    tell("unit-fault", await provedAnew(), true);
  } catch (error) {
    tell("unit-fault", error.message, true);
  }
}

export async function newNumber() {
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

export function newAnswers() {
  try {
    state.answers = [0, 1, 2].map((each) => decimal(at(`answer-${each}`)));
    tell("answer-words", "");
    certify().then((wrong) => tell("answer-words", wrong, true));
  } catch (error) {
    tell("answer-words", error.message, true);
  }
}
