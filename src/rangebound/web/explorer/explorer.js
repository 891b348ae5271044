// The page: its controls, and how it opens.

import { at, button, decimal, say, tell } from "./elements.js";
import { showOthers } from "./law_view.js";
import { state } from "./page_state.js";
import { add, newAnswers, newBounds, newNumber, newRows, newUnit, ownBounds, remove, showAddFields, showKeys, wanted } from "./plan_edits.js";
import { checkText, columns, editText, exported, savePlan } from "./plan_file.js";
import { certify, changed, unproved } from "./proof.js";
import { account, askPublish, publish, trial } from "./trial.js";

function takeEpsilon(value) {
  state.typed = false;
  state.fault = "";
  tell("epsilon-words", "");
  at("epsilon-exact").removeAttribute("aria-invalid");
  state.changes.epsilon = value;
  changed();
}

function beginEpsilon() {
  state.typed = true;
  state.number++; // a proof that is on its way is of the epsilon before
  state.waiting = null;
  clearTimeout(state.timer);
  say("quick", "Press Enter to take the epsilon that you type.");
}

function endEpsilon() {
  if (!state.typed) return;
  let words = "Epsilon must be above 0 and at most 100.";
  try {
    const value = decimal(at("epsilon-exact"));
    if (value !== null && value > 0 && value <= 100) return takeEpsilon(value);
  } catch (error) {
    words = error.message;
  }
  state.fault = words;
  tell("epsilon-words", words, true);
  at("epsilon-exact").setAttribute("aria-invalid", "true");
  unproved("error", "Not certified: there is no valid epsilon.", "not proved");
}

// The rows of the table of questions come and go, so the table listens for them.
function listenToQuestions() {
  const table = at("question-table");
  const listen = (type, selector, act) => table.addEventListener(type, ({ target }) => {
    if (target.matches(selector)) act(target, target.closest("tr"));
  });
  listen("input", "td.share input", (slider, row) => changed({ query: row.dataset.query, share: Number(slider.value) / 100 }));
  listen("change", "td.margin input", (field, row) => wanted(row.dataset.query, field));
  listen("change", "[data-bound]", (_, row) => ownBounds(row));
  listen("click", "th button", (_, row) => remove(row.dataset.query));
}

function listen() {
  at("epsilon").addEventListener("input", () => {
    at("epsilon-exact").value = state.epsilons[Number(at("epsilon").value)];
    takeEpsilon(state.epsilons[Number(at("epsilon").value)]);
  });
  at("epsilon-exact").addEventListener("input", beginEpsilon);
  for (const end of ["change", "blur"]) at("epsilon-exact").addEventListener(end, endEpsilon);
  at("delta").addEventListener("input", () => {
    state.changes.delta = state.deltas[Number(at("delta").value)];
    changed();
  });
  at("offers").addEventListener("click", (event) => { if (event.target.matches("button")) takeEpsilon(Number(event.target.dataset.epsilon)); });
  at("even-shares").addEventListener("click", () => { state.changes.weights = undefined; state.changes.selection = undefined; changed(); });
  at("law-question").addEventListener("change", () => { state.question = at("law-question").value; state.answers = null; certify(); });
  for (const index of [0, 1, 2]) at(`answer-${index}`).addEventListener("change", newAnswers);
  for (const name of ["kind", "lower", "upper", "rows"]) at(`number-${name}`).addEventListener("change", newNumber);
  for (const name of ["rows", "groups"]) at(`unit-${name}`).addEventListener("change", newBounds);
  at("unit-column").addEventListener("change", () => newUnit(at("unit-column").value));
  at("unit-none").addEventListener("click", () => newUnit(""));
  at("about-rows").addEventListener("change", newRows);
  at("add-kind").addEventListener("change", showAddFields);
  at("add-by").addEventListener("change", showKeys);
  at("add-question").addEventListener("click", add);
  at("plan-text").addEventListener("input", editText);
  at("apply-plan").addEventListener("click", checkText);
  at("save-plan").addEventListener("click", savePlan);
  at("make-trial").addEventListener("click", trial);
  at("ask-publish").addEventListener("click", askPublish);
  at("confirm-publish").addEventListener("click", publish);
  at("cancel-publish").addEventListener("click", () => at("publish").close());
}

async function open() {
  state.begin = await (await fetch("start")).json();
  if (state.begin.error) throw new Error(state.begin.error);
  state.epsilons = state.begin.epsilons;
  state.deltas = state.begin.deltas;
  at("epsilon").max = state.epsilons.length - 1;
  at("delta").max = state.deltas.length - 1;
  at("version").textContent = state.begin.version;
  const { file } = state.begin;
  at("number").hidden = file !== null;
  at("saving").hidden = at("steps").hidden = file === null;
  at("save-plan").textContent = `Save to ${file}`;
  at("exports").replaceChildren(...state.begin.exports.map((name) => button(file && name === "plan.toml" ? "Save a copy" : `Save ${name}`, () => exported(name))));
  state.plan = state.shownText = state.opened = at("plan-text").value = state.begin.plan;
  showOthers();
  showAddFields();
  listen();
  listenToQuestions();
  if (await certify()) account();
  at("add").open = file !== null && state.view?.questions.length === 1; // a first plan
  columns();
}

open().catch((error) => say("error", error.message));
