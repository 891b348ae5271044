// What changes the plan: its text, margins, questions, bounds, its unit; its file, and copies of it.

import { ask, at, decimal, make, save, state, tell } from "./elements.js";
import { certify, provedAnew, unproved } from "./proof.js";
import { account } from "./trial.js";

// Do something, and say whether it could be done; what goes wrong is said at `place`, beside what was pressed.
async function attempt(place, act, failed = () => {}) {
  try {
    await act();
    return true;
  } catch (error) {
    tell(place, error.message, true);
    failed(error.message);
    return false;
  }
}

const refused = (words) => unproved("error", words, "not proved");

// Show another plan; what is wrong with it is said at `place`.
async function newPlan(text, place) {
  state.plan = state.shownText = at("plan-text").value = text;
  state.edited = false;
  state.answers = state.question = null;
  const wrong = await provedAnew();
  if (wrong) {
    tell(place, wrong, true);
    account();
  }
  columns();
}

export async function columns() {
  const found = await ask("columns").catch(() => ({ columns: [] }));
  at("column-names").replaceChildren(...found.columns.map((each) => make("option", { value: each })));
}

export function editText() {
  state.edited = at("plan-text").value !== state.shownText;
  tell("plan-words", state.edited ? "Edited: press Check and show." : "");
}

// Take the text as it was edited: where it differs from what was shown, it wins; what was moved since is kept.
export const checkText = () => attempt("plan-words", async () => {
  const found = await ask("kept", { before: state.shownText, plan: at("plan-text").value });
  state.changes = found.changes;
  tell("plan-words", found.words);
  await newPlan(found.plan, "plan-words");
}, refused);

// Before the plan is changed or saved elsewhere, an edited text is checked, so that nothing of it is lost.
async function settled(task, more) {
  if (state.edited && !(await checkText())) throw new Error("The text of the plan was edited and is not valid; mend it first.");
  return ask(task, more());
}

export const savePlan = () => attempt("save-words", async () => {
  tell("save-words", "Saving.");
  const found = await settled("save", () => ({ opened: state.opened }));
  state.opened = found.text;
  tell("save-words", `Saved to ${state.begin.file}. ${found.words}`, !found.ready);
}, (words) => tell("save-words", `Not saved: ${words}`, true));

export const exported = (name) => attempt("plan-words", async () => {
  const found = await settled("export", () => ({ name }));
  save(found.name, found.text);
  tell("plan-words", `${found.name} is where your browser puts downloads.`);
});

// A plan whose text the server edits, with the changes that still hold.
const edit = (task, place, more, done = () => {}) => attempt(place, async () => {
  const found = await settled(task, more);
  done();
  for (const id of ["add-words", "remove-words", "plan-words", "unit-fault"]) tell(id, "");
  tell(place, found.words);
  state.changes = found.changes;
  await newPlan(found.plan, place);
});

// Bounds that one question has for itself; an empty field leaves those of the unit.
export function ownBounds(row) {
  const bounds = () => Object.fromEntries([...row.querySelectorAll("[data-bound]")].map((field) => [field.dataset.bound, decimal(field)]));
  edit("bounds", row.querySelector("details.own output").id, () => ({ query: row.dataset.query, bounds: bounds() }));
}

// The values of a column to group by: those that the plan lists already are taken as they are.
export function showKeys() {
  const known = state.view?.keys[at("add-by").value.trim()];
  at("add-keys").placeholder = known ? `as the plan has them: ${known.join(", ")}` : "north, south";
  at("add-groups-asked").hidden = at("add-cut").hidden = !at("add-by").value.trim() || !state.view?.unit.bounded;
  at("add-groups").placeholder = state.view?.unit.groups ?? "";
}

// An end of a range: a number, or a day.
function end(field) {
  const text = field.value.trim();
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? text : decimal(field);
}

function addFields() {
  const kind = at("add-kind").value;
  return { form: { kind, column: at("add-column").value, lower: end(at("add-lower")), upper: end(at("add-upper")), by: at("add-by").value, keys: at("add-keys").value, groups: at("add-groups-asked").hidden ? null : decimal(at("add-groups")), more: at("add-more").value } };
}

export function showAddFields() {
  const has = state.begin.kinds[at("add-kind").value];
  for (const each of document.querySelectorAll("#add .of-values")) each.hidden = !(each.contains(at("add-column")) ? has.column : has.range);
  at("add-more").placeholder = has.more ?? "none";
}

export const add = () => edit("add", "add-words", addFields, () => {
  for (const name of ["column", "lower", "upper", "by", "keys", "groups", "more"]) at(`add-${name}`).value = "";
  showKeys();
});

export async function remove(query) {
  const done = await edit("remove", "remove-words", () => ({ query }));
  if (done) document.querySelector("#question-table button, #add summary").focus(); // the button that was pressed is gone
}

export const newUnit = (column) => edit("unit", "unit-fault", () => ({ column }));

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

const ABOUT = at("about-words").textContent;

// About how many rows the table has: nothing of the plan changes.
export async function newRows() {
  state.rows = null;
  await attempt("about-words", () => {
    const rows = decimal(at("about-rows"));
    if (rows !== null && !(rows >= 1)) throw new Error("Rows must be a number, at least 1.");
    state.rows = rows;
    tell("about-words", ABOUT);
  });
  certify();
}

export const newBounds = () => attempt("unit-fault", async () => {
  for (const name of ["rows", "groups"]) {
    const value = decimal(at(`unit-${name}`));
    if (!Number.isInteger(value) || value < 1) throw new Error(`${name === "rows" ? "Rows" : "Groups"} must be a whole number, at least 1.`);
    if (value !== state.view.unit[name]) state.changes[name] = value;
  }
  tell("unit-fault", "");
  tell("unit-fault", await provedAnew(), true);
});

function numberFields() {
  const kind = at("number-kind").value, what = kind === "count" ? "It is" : "Each value is";
  at("lower-words").textContent = `${what} at least`;
  at("upper-words").textContent = `${what} at most`;
  return { kind, lower: decimal(at("number-lower")), upper: decimal(at("number-upper")), rows: Number(at("number-rows").value) };
}

export const newNumber = () => attempt("number-words", async () => {
  const { plan } = await ask("number", { number: numberFields() });
  state.changes.weights = undefined;
  state.changes.margins = {};
  tell("number-words", "");
  await newPlan(plan, "number-words");
}, refused);

export const newAnswers = () => attempt("answer-words", async () => {
  state.answers = [0, 1, 2].map((each) => decimal(at(`answer-${each}`)));
  tell("answer-words", "");
  tell("answer-words", await certify(), true);
});
